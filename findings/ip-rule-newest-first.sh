#!/bin/sh
# Of rules that `ip rule add` adds without a priority, the newest is tried first.
#
# Guess:   they are tried in the order in which they were added, as rules of a firewall that are appended.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: each one gets the number below the least one so far, 32765, 32764 and so on: the last one decides. With one
#          and the same priority given, it is the first one.
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
alone 'ip rule add table 100' 2>/dev/null || skip "no rules in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    ip route add blackhole 192.0.2.0/24 table 102
    ip route add 192.0.2.0/24 dev lo table 101
    show() {
        echo "$1: $(ip rule | sed -n "s/:.*lookup \(10[0-9]\).*/ table \1/p" | paste -sd ,)," \
            "$(ip route get 192.0.2.1 2>/dev/null | grep -o "dev lo table 101" || echo blackhole)"
    }
    ip rule add from all table 101
    ip rule add from all table 102
    show "no priority"
    ip rule del table 101
    ip rule del table 102
    ip rule add from all table 101 priority 100
    ip rule add from all table 102 priority 100
    show "priority 100"')
expected='no priority: 32764 table 102,32765 table 101, blackhole
priority 100: 100 table 101,100 table 102, dev lo table 101'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
