#!/bin/sh
# An IPv6 blackhole route is gone after the loopback was down, and an IPv4 one is not.
#
# Guess:   `ip route add blackhole …` is for no interface, so it stays whatever becomes of interfaces.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the kernel hangs the IPv6 one on `lo`, although it takes it also while `lo` is down, as it is in a new
#          namespace: the next time that `lo` goes down the route goes for good, as do `unreachable` and `prohibit`.
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
[ -e /proc/sys/net/ipv6 ] || skip "no IPv6"

# shellcheck disable=SC2016
seen=$(alone '
    for kind in blackhole unreachable prohibit; do
        ip route add "$kind" 10.9.0.0/16
        ip -6 route add "$kind" 2001:db8:9::/48
        show() { echo "$kind, $1: IPv4 $(ip route | grep -c "^$kind"), IPv6 $(ip -6 route | grep -c "^$kind")"; }
        show "before"
        ip link set lo up
        show "up"
        ip link set lo down
        ip link set lo up
        show "down and up"
        ip route flush 10.9.0.0/16
        ip link set lo down
    done')
expected=$(for kind in blackhole unreachable prohibit; do
    echo "$kind, before: IPv4 1, IPv6 1"
    echo "$kind, up: IPv4 1, IPv6 1"
    echo "$kind, down and up: IPv4 1, IPv6 0"
done)

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
