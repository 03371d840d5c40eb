#!/bin/sh
# A route that is added without a metric wins against one of metric 10 in IPv4, and loses in IPv6.
#
# Guess:   no metric is 0, the best there is, in both.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: in IPv6 it is 1024, also where `metric 0` is said. So `ip -6 route replace` without a metric adds a route
#          that is not used, beside the one of metric 10.
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
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    ip addr add 2001:db8::1/64 dev p1 nodad
    show() {
        title=$1
        shift
        for net in 10.0.0. 2001:db8::; do
            case $net in 10*) family=4 prefix=10.9.0.0/16 ;; *) family=6 prefix=2001:db8:9::/48 ;; esac
            ip -"$family" route add "$prefix" via "${net}2" metric 10
            ip -"$family" route replace "$prefix" via "${net}3" "$@"
            echo "IPv$family, $title: $(ip -"$family" -o route get "${prefix%/*}" | grep -o "via [^ ]*")"
            ip -"$family" route flush "$prefix"
        done
    }
    show "no metric"
    show "metric 0" metric 0
    show "metric 5" metric 5')
expected='IPv4, no metric: via 10.0.0.3
IPv6, no metric: via 2001:db8::2
IPv4, metric 0: via 10.0.0.3
IPv6, metric 0: via 2001:db8::2
IPv4, metric 5: via 10.0.0.3
IPv6, metric 5: via 2001:db8::3'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
