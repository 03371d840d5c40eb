#!/bin/sh
# An interface that moves to another network namespace loses its qdiscs.
#
# Guess:   addresses and routes stay behind, but what belongs to the device goes along: its MTU, MAC and qdiscs.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: MTU and MAC go along, the root qdisc does not, nor clsact, at which filters would be. A link that was given
#          its rate before it was laid between two nodes has none at that end, and nothing tells so.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'tc qdisc add dev lo root tbf rate 10mbit burst 15kb latency 50ms' 2>/dev/null || skip "no tbf in this kernel"
alone 'tc qdisc add dev lo clsact' 2>/dev/null || skip "no clsact in this kernel"

cat >"$tmp/show" <<'SHOW'
echo "$1: $(ip -o link show p1 | grep -oE 'mtu [0-9]+|ether [0-9a-f:]+' | paste -sd ' ')," \
    "qdiscs: $(tc qdisc show dev p1 | cut -d ' ' -f 2 | grep -v '^no' | paste -sd ' ' | sed 's/^$/none/')"
SHOW
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$1"
    ip link add name p1 address 02:00:00:00:00:01 mtu 1400 type veth peer name p2
    tc qdisc add dev p1 root tbf rate 10mbit burst 15kb latency 50ms
    tc qdisc add dev p1 clsact
    sh show before
    unshare --net sh -c "echo there; exec sleep 60" >ready &
    read -r there <ready
    ip link set p1 netns "$!"
    nsenter --target "$!" --net sh show "$there"
    kill "$!"
' sh "$tmp")
expected='before: mtu 1400 ether 02:00:00:00:00:01, qdiscs: tbf clsact
there: mtu 1400 ether 02:00:00:00:00:01, qdiscs: none'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
