#!/bin/sh
# `ip -6 route append` makes one route that balances between both gateways; in IPv4 it adds one that is not used.
#
# Guess:   the appended route is behind the first one in IPv6, too, and is used when that is gone.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the kernel joins routes of equal prefix and metric into one with two next hops, at once in use. Only with
#          another metric there are two routes. `prepend` joins them, too; a route without a gateway stays alone.
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

# shellcheck disable=SC2016
seen=$(alone '
    for name in p1 p3; do ip link add name "$name" type veth peer name "far-$name"; done
    for name in p1 far-p1 p3 far-p3; do ip link set "$name" up; done
    ip addr add 10.0.0.1/24 dev p1
    ip addr add 2001:db8::1/64 dev p1 nodad
    used() {
        for host in $(seq 64); do ip -o route get "$1$host" | grep -o "via [^ ]*"; done | sort -u | paste -sd ,
    }
    ip route add 10.9.0.0/16 via 10.0.0.2
    ip route append 10.9.0.0/16 via 10.0.0.3
    echo "IPv4, append: $(used 10.9.0.)"
    show() {
        ip -6 route add 2001:db8:9::/48 via 2001:db8::2 metric 1024
        ip -6 route "$@" 2001:db8:9::/48 via 2001:db8::3 metric "$metric"
        echo "IPv6, $1, metrics 1024 and $metric: $(used 2001:db8:9::)"
        ip -6 route flush 2001:db8:9::/48
    }
    metric=1024
    show append
    show prepend
    metric=1025
    show append
    ip -6 route add 2001:db8:8::/48 dev p1
    ip -6 route append 2001:db8:8::/48 dev p3
    echo "IPv6, no gateway: $(ip -6 route show 2001:db8:8::/48 | grep -c "^2001:db8:8::/48 dev p[13]") routes"')
expected='IPv4, append: via 10.0.0.2
IPv6, append, metrics 1024 and 1024: via 2001:db8::2,via 2001:db8::3
IPv6, prepend, metrics 1024 and 1024: via 2001:db8::2,via 2001:db8::3
IPv6, append, metrics 1024 and 1025: via 2001:db8::2
IPv6, no gateway: 2 routes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
