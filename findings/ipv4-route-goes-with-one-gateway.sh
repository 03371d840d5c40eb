#!/bin/sh
# `ip route del PREFIX via GATEWAY` deletes a whole IPv4 route with several gateways; of an IPv6 one it deletes the one.
#
# Guess:   only the next hop that is named goes, in IPv4 as in IPv6, or nothing does, since there is no such route.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: naming the first gateway is enough for the IPv4 route to go with all its gateways, without an error. Naming
#          the second one is an error there, and nothing goes.
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
[ -e /proc/sys/net/ipv6 ] || skip "no IPv6"
alone '
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip addr add 10.0.0.1/24 dev p1
    ip route add 10.9.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.0.3' 2>/dev/null ||
    skip "no multipath in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    ip addr add 2001:db8::1/64 dev p1 nodad
    show() {
        family=$1 prefix=$2 net=$3
        ip -"$family" route add "$prefix" nexthop via "${net}2" nexthop via "${net}3"
        ip -"$family" route del "$prefix" via "$net$4" 2>/dev/null && done=deleted || done=error
        left=$(ip -"$family" route show "$prefix" | grep -o "via [^ ]*" | paste -sd ,)
        echo "IPv$family, without $net$4: $done, left: ${left:-nothing}"
        ip -"$family" route flush "$prefix"
    }
    for host in 2 3; do
        show 4 10.9.0.0/16 10.0.0. "$host"
        show 6 2001:db8:9::/48 2001:db8:: "$host"
    done')
expected='IPv4, without 10.0.0.2: deleted, left: nothing
IPv6, without 2001:db8::2: deleted, left: via 2001:db8::3
IPv4, without 10.0.0.3: error, left: via 10.0.0.2,via 10.0.0.3
IPv6, without 2001:db8::3: deleted, left: via 2001:db8::2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
