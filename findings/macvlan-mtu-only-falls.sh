#!/bin/sh
# A macvlan interface follows its lower one's MTU down, but not up again; a bridge follows its ports both ways.
#
# Guess:   who lowers the MTU of an interface and raises it again has what he had before, also at what lies upon it.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the macvlan stays at the least MTU that there was. A bridge has that of its ports again, until somebody sets
#          its MTU: from then on it follows neither way. A vxlan interface keeps what it had when it was made.
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

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'ip link add name p1 type bridge' 2>/dev/null || skip "no bridge in this kernel"
alone 'ip link add name p1 type vxlan id 1 dstport 4789' 2>/dev/null || skip "no vxlan in this kernel"
alone 'ip link add name p1 type veth; ip link add link p1 type macvlan' 2>/dev/null || skip "no macvlan in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    for name in p1 p2 p3; do ip link add name "$name" type veth peer name "far-$name"; done
    ip link add link p1 name mv0 type macvlan
    ip link add name vx0 type vxlan id 1 dev p1 remote 192.0.2.1 dstport 4789
    ip link add name br0 type bridge
    ip link set p2 master br0
    ip link add name br1 type bridge
    ip link set br1 mtu 1450
    ip link set p3 master br1
    mtu() { ip -o link show "$1" | sed "s/.* mtu \([0-9]*\) .*/\1/"; }
    for mtu in 1500 1400 1500; do
        for name in p1 p2 p3; do ip link set "$name" mtu "$mtu"; done
        echo "below $mtu: macvlan $(mtu mv0), vxlan $(mtu vx0), bridge $(mtu br0), bridge with an MTU set $(mtu br1)"
    done')
expected='below 1500: macvlan 1500, vxlan 1450, bridge 1500, bridge with an MTU set 1450
below 1400: macvlan 1400, vxlan 1450, bridge 1400, bridge with an MTU set 1450
below 1500: macvlan 1400, vxlan 1450, bridge 1500, bridge with an MTU set 1450'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
