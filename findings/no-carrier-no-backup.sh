#!/bin/sh
# A route over an interface without carrier stays in use, and the backup route beside it is not taken.
#
# Guess:   when the cable is pulled, the static route over it rests, and the one with the next metric is taken, as in a
#          hardware router.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the kernel marks the route `linkdown` and takes it all the same, IPv4 and IPv6. Only with the setting
#          ignore_routes_with_linkdown does the other one come; or when the interface itself is set down.
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
[ -e /proc/sys/net/ipv6 ] || skip "no IPv6"

# shellcheck disable=SC2016
seen=$(alone '
    for number in 1 2; do
        ip link add name "p$number" type veth peer name "far$number"
        ip link set "p$number" up
        ip link set "far$number" up
        ip addr add "10.0.$number.1/24" dev "p$number"
        ip addr add "2001:db8:$number::1/64" dev "p$number" nodad
        ip route add 192.0.2.0/24 via "10.0.$number.2" metric "$number"
        ip -6 route add 2001:db8:9::/64 via "2001:db8:$number::2" metric "$number"
    done
    show() {
        for address in 192.0.2.1 2001:db8:9::1; do ip -o route get "$address" | grep -o "dev p[0-9]"; done |
            paste -sd , | sed "s/^/$1: /"
    }
    show "with carrier"
    ip link set far1 down
    until ip link show p1 | grep -q NO-CARRIER; do :; done
    show "without carrier"
    echo 1 >/proc/sys/net/ipv4/conf/all/ignore_routes_with_linkdown
    echo 1 >/proc/sys/net/ipv6/conf/all/ignore_routes_with_linkdown
    show "with ignore_routes_with_linkdown"
    echo 0 >/proc/sys/net/ipv4/conf/all/ignore_routes_with_linkdown
    echo 0 >/proc/sys/net/ipv6/conf/all/ignore_routes_with_linkdown
    ip link set p1 down
    show "set down"')
expected='with carrier: dev p1,dev p1
without carrier: dev p1,dev p1
with ignore_routes_with_linkdown: dev p2,dev p2
set down: dev p2,dev p2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
