#!/bin/sh
# Most settings of net.ipv6.conf.all change no interface that is there, and none that comes.
#
# Guess:   net.ipv6.conf.all.accept_ra=0 stops all interfaces from taking router advertisements, as `all.forwarding`
#          and `all.disable_ipv6` are for all.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: accept_ra, accept_redirects, accept_dad, autoconf, use_tempaddr, hop_limit and mtu of `all` are written
#          and read back, and change nothing: old interfaces keep theirs, and new ones take that of `default`.
#          forwarding, disable_ipv6 and addr_gen_mode do change both.
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
    cd /proc/sys/net/ipv6/conf
    attempt() {
        echo "$2" >"default/$1"
        ip link add name p1 type veth peer name p2
        echo "$3" >"all/$1"
        ip link add name q1 type veth peer name q2
        echo "$1: all $(cat "all/$1"), an old interface $(cat "p1/$1"), a new one $(cat "q1/$1")"
        ip link del p1
        ip link del q1
        echo "$2" >"all/$1"
    }
    attempt accept_ra 1 0
    attempt accept_redirects 1 0
    attempt accept_dad 1 0
    attempt autoconf 1 0
    attempt use_tempaddr 0 2
    attempt hop_limit 64 32
    attempt mtu 1500 1400
    attempt forwarding 0 1
    attempt disable_ipv6 0 1
    attempt addr_gen_mode 0 1')
expected='accept_ra: all 0, an old interface 1, a new one 1
accept_redirects: all 0, an old interface 1, a new one 1
accept_dad: all 0, an old interface 1, a new one 1
autoconf: all 0, an old interface 1, a new one 1
use_tempaddr: all 2, an old interface 0, a new one 0
hop_limit: all 32, an old interface 64, a new one 64
mtu: all 1400, an old interface 1500, a new one 1500
forwarding: all 1, an old interface 1, a new one 1
disable_ipv6: all 1, an old interface 1, a new one 1
addr_gen_mode: all 1, an old interface 1, a new one 1'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
