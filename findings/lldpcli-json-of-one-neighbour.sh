#!/bin/sh
# lldpcli's JSON has an object for one neighbour, and a list for two.
#
# Guess:   `interface` in `lldpcli -f json show neighbors` is a list, of one element where there is one neighbour.
# Package: lldpd 1.0.16-1+deb12u1, iproute2 6.1.0-3 (Debian 12).
# Happens: the one is an object whose key is the name of the interface, so code that was tried with one neighbour fails
#          with the second one. With `-f json0` it is a list in both cases.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    lldpd=1.0.16-1+deb12u1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

# It gives up its rights for another user, which a user namespace alone does not let it do.
[ "$(id -u)" -eq 0 ] || skip "lldpd needs root"
alone() { unshare --mount --net --uts --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# lldpd wants its user and group, and a folder in /run: each of the two has its own.
cat >"$tmp/node" <<'NODE'
mount -t tmpfs none /run
mount -t tmpfs none /etc
mkdir /run/lldpd
echo "_lldpd:x:0:0::/:/bin/sh" >/etc/passwd
echo "_lldpd:x:0:" >/etc/group
echo "NAME=node" >/etc/os-release
ip link set lo up
NODE
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$1"
    . ./node
    unshare --mount --net --uts sh -c ". ./node; echo there; exec sleep 300" >ready &
    read -r there <ready
    far=$!
    for number in 1 2; do
        ip link add name "p$number" type veth peer name "q$number"
        ip link set "q$number" netns "$far"
        ip link set "p$number" up
    done
    cli() { lldpcli -u /run/lldpd.sock "$@" 2>>log; }
    lldpd -d -u /run/lldpd.sock -I "p*" -L "$(command -v lldpcli)" >log 2>&1 &
    nsenter --target "$far" --mount --net --uts lldpd -d -u /run/lldpd.sock -I "q*" \
        -L "$(command -v lldpcli)" >log2 2>&1 &
    show() {
        until cli -f json show neighbors | grep -q "\"p$1\""; do
            nsenter --target "$far" --mount --net --uts lldpcli -u /run/lldpd.sock update >>log2 2>&1 || :
            sleep 0.2
        done
        for format in json json0; do
            cli -f "$format" show neighbors >answer
            echo "$1 neighbours, $format: $(python3 -c "
import json
lldp = json.load(open(\"answer\"))[\"lldp\"]
lldp = lldp[0] if isinstance(lldp, list) else lldp
print(type(lldp[\"interface\"]).__name__)")"
        done
    }
    nsenter --target "$far" --net ip link set q1 up
    show 1
    nsenter --target "$far" --net ip link set q2 up
    show 2' sh "$tmp") || { cat "$tmp/log"; exit 1; }
expected='1 neighbours, json: dict
1 neighbours, json0: list
2 neighbours, json: list
2 neighbours, json0: list'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
