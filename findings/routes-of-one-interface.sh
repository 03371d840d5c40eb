#!/bin/sh
# `ip route show dev p1` leaves out routes that have p1 as one of several interfaces.
#
# Guess:   it shows each route by which packets leave at p1, and `ip route flush dev p1` deletes these.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: routes with several gateways are in neither: they are not shown for any of their interfaces, nor with
#          `via`, and a flush leaves them in use. So it is in IPv4 and in IPv6.
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

# shellcheck disable=SC2016
seen=$(alone '
    for number in 1 2; do
        ip link add name "p$number" type veth peer name "q$number"
        ip link set "q$number" up
        ip link set "p$number" up
        ip addr add "10.0.$number.1/24" dev "p$number"
        ip addr add "2001:db8:$number::1/64" dev "p$number" nodad
    done
    ip -4 route add 10.9.0.0/16 nexthop via 10.0.1.2 nexthop via 10.0.2.2
    ip -4 route add 10.8.0.0/16 via 10.0.1.2
    ip -6 route add 2001:db8:9::/48 nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2
    ip -6 route add 2001:db8:8::/48 via 2001:db8:1::2
    nets() { sed -n "s,^\(10\.[89]\.0\.0/16\|2001:db8:[89]::/48\) .*,\1,p" | paste -sd " "; }
    for family in 4 6; do
        gateway=10.0.1.2
        [ "$family" -eq 4 ] || gateway=2001:db8:1::2
        echo "IPv$family, all: $(ip -$family route show | nets)"
        echo "IPv$family, dev p1: $(ip -$family route show dev p1 | nets)"
        echo "IPv$family, via its gateway: $(ip -$family route show via $gateway | nets)"
        ip -$family route flush dev p1
        echo "IPv$family, all after a flush of p1: $(ip -$family route show | nets)"
    done')
expected='IPv4, all: 10.8.0.0/16 10.9.0.0/16
IPv4, dev p1: 10.8.0.0/16
IPv4, via its gateway: 10.8.0.0/16
IPv4, all after a flush of p1: 10.9.0.0/16
IPv6, all: 2001:db8:8::/48 2001:db8:9::/48
IPv6, dev p1: 2001:db8:8::/48
IPv6, via its gateway: 2001:db8:8::/48
IPv6, all after a flush of p1: 2001:db8:9::/48'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
