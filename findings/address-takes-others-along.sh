#!/bin/sh
# Deleting the first address of an interface deletes its other addresses of the same network.
#
# Guess:   `ip addr del 10.0.0.1/24 dev p1` deletes that one; 10.0.0.2/24 and 10.0.0.3/24 stay, as in IPv6.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: in IPv4 the later ones are `secondary` and go with the first one, and with them the route to the network,
#          unless net.ipv4.conf.*.promote_secondaries is 1.
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
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    of() { ip "$1" -o addr show dev p1 scope global | sed "s/.* inet6* \([^ ]*\).*/\1/" | sort | paste -sd " "; }
    for promote in 0 1; do
        echo "$promote" >/proc/sys/net/ipv4/conf/p1/promote_secondaries
        for last in 1 2 3; do ip addr add "10.0.0.$last/24" dev p1; done
        ip addr del 10.0.0.1/24 dev p1
        echo "IPv4, promote_secondaries $promote: $(of -4), $(ip -4 route show dev p1 | grep -c 10.0.0.0/24 || :) route"
        ip -4 addr flush dev p1
    done
    for last in 1 2 3; do ip addr add "2001:db8::$last/64" dev p1 nodad; done
    ip addr del 2001:db8::1/64 dev p1
    echo "IPv6: $(of -6)"')
expected='IPv4, promote_secondaries 0: , 0 route
IPv4, promote_secondaries 1: 10.0.0.2/24 10.0.0.3/24, 1 route
IPv6: 2001:db8::2/64 2001:db8::3/64'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
