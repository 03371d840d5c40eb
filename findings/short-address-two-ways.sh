#!/bin/sh
# `ip addr add 10.2/16` gives 10.2.0.0, `ping 10.2` asks 10.0.0.2.
#
# Guess:   both read a short address alike, as inet_aton does (10.0.0.2), or refuse it.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12).
# Happens: `ip` fills it with zeroes at the end, as a network's address, also where a host is meant.
#          ping fills it in the middle.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 iputils-ping=3:20221126-1+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"

# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    ip addr add 10.2/16 dev lo
    ip route add local 10.0.0.0/24 dev lo
    echo "ip addr add:$(ip -o -4 addr show dev lo | grep -o " 10[.0-9/]*")"
    echo "ip route get: $(ip route get 10.2 | grep -o "^local [^ ]*")"
    echo "ping: $(ping -q -c 1 -W 0.1 10.2 | sed -n "s/.*(\(10[.0-9]*\)).*/\1/p")"' 2>/dev/null)
expected='ip addr add: 10.2.0.0/16
ip route get: local 10.2.0.0
ping: 10.0.0.2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
