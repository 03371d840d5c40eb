#!/bin/sh
# A vxlan without `dev` has an MTU of 1500, also where it goes by an interface of 1500.
#
# Guess:   its MTU is 1450, so that a packet and its tunnel's headers fit.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: that is so with `dev p1`; with `remote` and `local` alone the kernel does not look where the tunnel goes: a
#          packet of 1500 bytes inside is sent as two fragments outside.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 'iputils-ping=3:20221126-1+deb12u1' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

alone 'ip link add name x0 type vxlan id 1 remote 10.0.0.2 dstport 4789' 2>/dev/null || skip "no vxlan in this kernel"
# Pings of 1500 bytes go into the tunnel, whose other end is not there. What the interface sends is counted.
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p2 up
    ip link set p1 up
    ip addr add 10.0.0.1/24 dev p1
    ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1 nud permanent
    sent() { ip -s link show p1 | sed -n "/TX:/{n;s/^ *[0-9]* *\([0-9]*\).*/\1/p}"; }
    show() {
        ip link add name x0 type vxlan id 1 remote 10.0.0.2 dstport 4789 "$@"
        ip addr add 10.9.0.1/24 dev x0
        ip link set x0 up
        ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev x0 nud permanent
        mtu=$(ip link show x0 | sed -n "s/.* mtu \([0-9]*\) .*/\1/p")
        before=$(sent)
        ping -q -M dont -s $((mtu - 28)) -c 1 -W 0.1 10.9.0.2 >/dev/null || :
        echo "$*: MTU $mtu, a full packet is sent as $(($(sent) - before))"
        ip link del x0
    }
    show local 10.0.0.1
    show local 10.0.0.1 dev p1')
expected='local 10.0.0.1: MTU 1500, a full packet is sent as 2
local 10.0.0.1 dev p1: MTU 1450, a full packet is sent as 1'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
