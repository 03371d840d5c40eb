#!/bin/sh
# A look-up of a route for packets that rp_filter drops fails like one that meets a blackhole: "Invalid argument".
#
# Guess:   "Invalid cross-device link" (EXDEV), as Linux has answered `ip route get ... iif` for rp_filter for long: one can
#          tell the filter from a missing route by the error.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: EINVAL for the filter, and EINVAL for a blackhole. A router that does not forward answers EHOSTUNREACH, as
#          one with an unreachable route does. Linux 6.1 (user-mode-linux 6.1.176, by hand) answers EXDEV for the filter.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name one type bridge' 2>/dev/null || skip "no bridge in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    for n in 0 1; do
        ip link add name b$n type bridge
        ip addr add 10.0.$n.1/24 dev b$n
        ip link set b$n up
    done
    settings=/proc/sys/net/ipv4
    # Packets from $2 for $1 that come by b0.
    ask() { ip route get "$1" from "$2" iif b0 2>&1 | head -n 1 | sed "s/ dev .*//"; }
    echo 0 >$settings/ip_forward
    echo "not forwarding: $(ask 10.0.1.9 10.0.0.7)"
    echo 1 >$settings/ip_forward
    echo 1 >$settings/conf/all/rp_filter
    echo "way back by b0: $(ask 10.0.1.9 10.0.0.7)"
    echo "way back by b1: $(ask 10.0.1.9 10.0.1.7)"
    ip route add blackhole 192.0.2.0/24
    echo "blackhole: $(ask 192.0.2.1 10.0.0.7)"
    ip route replace unreachable 192.0.2.0/24
    echo "unreachable: $(ask 192.0.2.1 10.0.0.7)"
    ip route del unreachable 192.0.2.0/24
    echo "no route: $(ask 192.0.2.1 10.0.0.7)"
')
echo "Linux $(uname -r), $(ip -V)"
echo "$seen"
expected="not forwarding: RTNETLINK answers: No route to host
way back by b0: 10.0.1.9 from 10.0.0.7
way back by b1: RTNETLINK answers: Invalid argument
blackhole: RTNETLINK answers: Invalid argument
unreachable: RTNETLINK answers: No route to host
no route: RTNETLINK answers: Network is unreachable"
[ "$seen" = "$expected" ] || { echo "changed: expected"; echo "$expected"; exit 1; }
