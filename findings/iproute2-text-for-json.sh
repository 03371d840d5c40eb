#!/bin/sh
# Some commands of iproute2 take -j, and answer in text.
#
# Guess:   `ip -j` and `tc -j` answer in JSON, or say that this command cannot.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: `tc -j class show`, `ip -j mptcp limits` and `ip -j monitor` take the option and write text, with exit
#          code 0, where `tc -j qdisc show` and `ip -j route show` beside them write JSON.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2; tc qdisc add dev p1 root handle 1: htb' 2>/dev/null ||
    skip "no veth or no htb in this kernel"
alone 'ip mptcp limits' >"$tmp/limits" 2>&1 || skip "no MPTCP in this kernel"

cat >"$tmp/kind.py" <<'PYTHON'
import json
import sys

answer = sys.stdin.read()
try:
    json.loads(answer)
    print(sys.argv[1] + ": JSON")
except ValueError:
    print(sys.argv[1] + ": " + answer.split("\n")[0].strip())
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    kind() { python3 "$1/kind.py" "$2"; }
    ip link add name p1 type veth peer name p2
    ip addr add 10.0.0.1/24 dev p1
    ip link set p1 up
    tc qdisc add dev p1 root handle 1: htb default 10
    tc class add dev p1 parent 1: classid 1:10 htb rate 1mbit
    tc -j qdisc show dev p1 | kind "$0" "tc -j qdisc show"
    tc -j class show dev p1 | kind "$0" "tc -j class show"
    ip -j route show | kind "$0" "ip -j route show"
    ip -j mptcp limits | kind "$0" "ip -j mptcp limits"
    # It says nothing when it is ready, so the change is made until it has been told of one.
    ip -j monitor neigh >"$0/monitor" &
    monitor=$!
    until grep -q PERMANENT "$0/monitor"; do
        ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1
        ip neigh del 10.0.0.2 dev p1
        ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1
    done
    kill "$monitor"
    grep PERMANENT "$0/monitor" | head -n 1 | kind "$0" "ip -j monitor neigh"' "$tmp")
expected='tc -j qdisc show: JSON
tc -j class show: class htb 1:10 root prio 0 rate 1Mbit ceil 1Mbit burst 1600b cburst 1600b
ip -j route show: JSON
ip -j mptcp limits: add_addr_accepted 0 subflows 2
ip -j monitor neigh: 10.0.0.2 dev p1 lladdr 02:00:00:00:00:02 PERMANENT'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
