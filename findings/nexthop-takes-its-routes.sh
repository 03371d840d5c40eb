#!/bin/sh
# Deleting a nexthop object deletes the routes that use it.
#
# Guess:   `ip nexthop del id 1` is refused while routes use it, as an interface or a chain that is in use is.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: it succeeds, and the routes go with it, IPv4 and IPv6. A group that has another nexthop left keeps its
#          routes.
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
alone 'ip link set lo up; ip nexthop add id 1 blackhole' 2>/dev/null || skip "no nexthop objects in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    for number in 1 2; do
        ip link add name "p$number" type veth peer name "q$number"
        ip link set "q$number" up
        ip link set "p$number" up
        ip addr add "10.0.$number.1/24" dev "p$number"
    done
    ip addr add 2001:db8:1::1/64 dev p1 nodad
    ip nexthop add id 1 via 10.0.1.2 dev p1
    ip nexthop add id 2 via 10.0.2.2 dev p2
    ip nexthop add id 3 via 2001:db8:1::2 dev p1
    ip nexthop add id 4 group 1/2
    ip route add 10.7.0.0/16 nhid 4
    ip route add 10.8.0.0/16 nhid 1
    ip route add 10.9.0.0/16 nhid 1
    ip -6 route add 2001:db8:9::/48 nhid 3
    nets() { sed -n "s,^\(10\.[789]\.0\.0/16\|2001:db8:9::/48\) .*,\1,p" | paste -sd " "; }
    both() { { ip route show; ip -6 route show; } | nets; }
    echo "routes: $(both)"
    ip nexthop del id 1 && echo "nexthop 1 deleted"
    echo "routes: $(both)"
    ip nexthop del id 3 && echo "nexthop 3 deleted"
    echo "routes: $(both)"')
expected='routes: 10.7.0.0/16 10.8.0.0/16 10.9.0.0/16 2001:db8:9::/48
nexthop 1 deleted
routes: 10.7.0.0/16 2001:db8:9::/48
nexthop 3 deleted
routes: 10.7.0.0/16'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
