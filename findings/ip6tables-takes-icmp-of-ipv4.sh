#!/bin/sh
# `ip6tables -p icmp -j ACCEPT` is taken, and lets no ICMPv6 through.
#
# Guess:   it means ICMPv6 there, or is refused as a protocol of the other family.
# Package: iptables 1.8.9-2, nftables 1.0.6-2+deb12u2, iputils-ping 3:20221126-1+deb12u1, iproute2 6.1.0-3 (Debian
#          12), on Linux 6.18.
# Happens: it is a rule for protocol 1, which IPv6 does not use: exit code 0, and no ping matches it. `-p icmpv6` in
#          iptables is the same mistake the other way round, and taken, too.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iptables=1.8.9-2 nftables=1.0.6-2+deb12u2 'iputils-ping=3:20221126-1+deb12u1' iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
XTABLES_LIBDIR=$(echo "$tmp"/root/usr/lib/*-linux-gnu*/xtables)
export LD_LIBRARY_PATH XTABLES_LIBDIR

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

alone 'nft add table ip6 t' 2>/dev/null || skip "no nftables in this kernel"
# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    show() {
        table=$1 protocol=$2 address=$3
        code=0
        "$table" -A INPUT -p "$protocol" -j ACCEPT || code=$?
        ping -q -c 1 -W 1 "$address" >/dev/null
        matched=$(nft list ruleset | sed -n "s/.*counter packets \([0-9]*\) .*accept.*/\1/p")
        echo "${table%-nft} -p $protocol: exit code $code, $matched packets of a ping match"
        nft flush ruleset
    }
    show ip6tables-nft icmp ::1
    show ip6tables-nft icmpv6 ::1
    show iptables-nft icmpv6 127.0.0.1
    show iptables-nft icmp 127.0.0.1')
expected='ip6tables -p icmp: exit code 0, 0 packets of a ping match
ip6tables -p icmpv6: exit code 0, 2 packets of a ping match
iptables -p icmpv6: exit code 0, 0 packets of a ping match
iptables -p icmp: exit code 0, 2 packets of a ping match'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
