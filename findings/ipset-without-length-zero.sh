#!/bin/sh
# An ipset of networks takes all prefixes but 0.0.0.0/0.
#
# Guess:   `hash:net` takes the default route's prefix as it takes any other; a set of nftables does.
# Package: ipset 7.17-1, nftables 1.0.6-2+deb12u2 (Debian 12), on Linux 6.18.
# Happens: hash:net refuses a length of 0, in IPv4 and IPv6; 0.0.0.0/1 and 128.0.0.0/1 together are taken, and
#          hash:net,iface takes 0.0.0.0/0.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2 ipset=7.17-1 libipset13=7.17-1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'nft add table t' 2>/dev/null || skip "no nftables in this kernel"
alone 'ipset create s hash:net' 2>/dev/null || skip "no ipset in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ipset create four hash:net
    ipset create six hash:net family inet6
    ipset create way hash:net,iface
    attempt() { if answer=$("$@" 2>&1); then echo "$*: taken"; else echo "$*: $answer"; fi; }
    attempt ipset add four 0.0.0.0/0
    attempt ipset add six ::/0
    attempt ipset add four 0.0.0.0/1
    attempt ipset add four 128.0.0.0/1
    attempt ipset add way 0.0.0.0/0,lo
    nft add table t
    nft "add set t s { type ipv4_addr; flags interval; }"
    attempt nft add element t s "{ 0.0.0.0/0 }"')
expected='ipset add four 0.0.0.0/0: ipset v7.17: The value of the CIDR parameter of the IP address is invalid
ipset add six ::/0: ipset v7.17: The value of the CIDR parameter of the IP address is invalid
ipset add four 0.0.0.0/1: taken
ipset add four 128.0.0.0/1: taken
ipset add way 0.0.0.0/0,lo: taken
nft add element t s { 0.0.0.0/0 }: taken'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
