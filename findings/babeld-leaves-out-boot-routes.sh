#!/bin/sh
# `redistribute` of babeld leaves out the routes of `ip route add`.
#
# Guess:   a `redistribute` without conditions is for each route of the kernel that is not Babel's own.
# Package: babeld 1.12.1-1, libb2-1 0.98.1-1.1, iproute2 6.1.0-3 (Debian 12).
# Happens: routes of protocol `boot`, as `ip route add` makes them where nothing else is said, need `proto 3` to be
#          named; with `proto static` the same route is announced.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    babeld=1.12.1-1 libb2-1=0.98.1-1.1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# Asks babeld what it redistributes, until the route that is sure to be there is.
cat >"$tmp/ask.py" <<'PYTHON'
import socket

routes = []
while "10.8.0.0/16" not in routes:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("control")
            lines = connection.makefile("rw")
            while lines.readline().strip() != "ok":
                pass
            lines.write("dump\n")
            lines.flush()
            said = iter(lambda: lines.readline().strip(), "ok")
            routes = [line.split()[4] for line in said if line.startswith("add xroute 10")]
    except (FileNotFoundError, ConnectionRefusedError):
        pass
print(", ".join(sorted(routes)))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    ip route add 10.7.0.0/16 via 10.0.0.2
    ip route add 10.8.0.0/16 via 10.0.0.2 proto static
    show() {
        printf "%s\n" "redistribute local deny" "$2" "redistribute ip 10.0.0.0/8 ge 9 metric 128" \
            "local-path $PWD/control" "state-file $PWD/state" "pid-file $PWD/pid" >conf
        babeld -c conf p1 >log 2>&1 &
        echo "$1: $(python3 ask.py)"
        kill "$!"
        wait "$!" || :
        rm -f control pid
    }
    show redistribute ""
    show "and of proto 3" "redistribute ip 10.0.0.0/8 ge 9 proto 3 metric 128"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='redistribute: 10.0.0.0/24, 10.8.0.0/16
and of proto 3: 10.0.0.0/24, 10.7.0.0/16, 10.8.0.0/16'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
