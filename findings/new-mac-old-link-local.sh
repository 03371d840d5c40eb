#!/bin/sh
# An interface that gets another MAC address keeps the IPv6 link-local address that was made of the old one.
#
# Guess:   the link-local address follows the MAC address (it is made of it), or goes with it.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: it stays until the interface is set down and up: a node whose MAC address is set while its interface is up
#          is known by one that says another.
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
[ -e /proc/sys/net/ipv6 ] || skip "no IPv6 in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ip link add name p1 address 02:00:00:00:00:01 type veth peer name p2
    ip link set p2 up
    ip link set p1 up
    show() {
        until ip -6 addr show dev p1 scope link | grep -q inet6; do :; done
        echo "$1: $(ip -br link show p1 | grep -o "02:[0-9a-f:]*") has $(ip -6 addr show dev p1 scope link |
            sed -n "s,.*inet6 \(.*\)/64.*,\1,p")"
    }
    show "made"
    ip link set p1 address 02:00:00:00:00:99
    show "changed while up"
    ip link set p1 down
    ip link set p1 up
    show "down and up"')
expected='made: 02:00:00:00:00:01 has fe80::ff:fe00:1
changed while up: 02:00:00:00:00:99 has fe80::ff:fe00:1
down and up: 02:00:00:00:00:99 has fe80::ff:fe00:99'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
