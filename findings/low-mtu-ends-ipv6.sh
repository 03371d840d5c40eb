#!/bin/sh
# An interface whose MTU was below 1280 for a moment has lost its IPv6 addresses and IPv6 settings.
#
# Guess:   below 1280 bytes IPv6 rests; with the old MTU the interface has its addresses again, at least those that are
#          kept when it is down (`keep_addr_on_down`).
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: IPv6 starts from nothing: only a link-local address comes back, and the interface's IPv6 settings are those of
#          `default`. IPv4 keeps all. A lab that tries a small MTU on a link has to give IPv6 addresses and sysctls again.
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
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    echo 1 >/proc/sys/net/ipv6/conf/p1/keep_addr_on_down
    echo 7 >/proc/sys/net/ipv6/conf/p1/hop_limit
    ip addr add 10.0.0.1/24 dev p1
    ip addr add 2001:db8::1/64 dev p1 nodad
    show() {
        echo "$1: $(ip -o addr show dev p1 scope global | grep -oE "inet6? [^ ]*" | paste -sd ,)," \
            "hop_limit $(cat /proc/sys/net/ipv6/conf/p1/hop_limit)"
    }
    show "MTU of 1500"
    ip link set p1 down
    ip link set p1 up
    show "down and up"
    ip link set p1 mtu 1200
    ip link set p1 mtu 1500
    show "1200 and 1500"')
expected='MTU of 1500: inet 10.0.0.1/24,inet6 2001:db8::1/64, hop_limit 7
down and up: inet 10.0.0.1/24,inet6 2001:db8::1/64, hop_limit 7
1200 and 1500: inet 10.0.0.1/24, hop_limit 64'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
