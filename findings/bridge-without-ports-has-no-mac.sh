#!/bin/sh
# A bridge whose last port leaves has the MAC address 00:00:00:00:00:00.
#
# Guess:   it keeps the last one, or has the one of before its first port.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: a new bridge has a random address, with ports the lowest one of them, and without them all zeroes, although
#          it still has its IP addresses. An address that was set by hand stays.
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

# shellcheck disable=SC2016
seen=$(alone '
    ip link add name p1 address 02:00:00:00:00:01 type veth peer name p2
    mac() { ip -o link show br0 | sed "s/.*link.ether \([^ ]*\).*/\1/"; }
    show() {
        first=$(mac)
        ip link set p1 master br0
        with=$(mac)
        ip link set p1 nomaster
        case $first in 02:00:00:00:00:0a) ;; *:*) first=random ;; esac
        echo "$1: $first, with a port $with, without it $(mac)"
        ip link del br0
    }
    ip link add name br0 type bridge
    show "its own"
    ip link add name br0 type bridge
    ip link set br0 address 02:00:00:00:00:0a
    show "set by hand"')
expected='its own: random, with a port 02:00:00:00:00:01, without it 00:00:00:00:00:00
set by hand: 02:00:00:00:00:0a, with a port 02:00:00:00:00:0a, without it 02:00:00:00:00:0a'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
