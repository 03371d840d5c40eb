#!/bin/sh
# A `log` rule in a network namespace writes nothing.
#
# Guess:   `log prefix` writes to the kernel's log, in a namespace as outside, or is refused there.
# Package: nftables 1.0.6-2+deb12u2, iputils-ping 3:20221126-1+deb12u1, iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the rule is taken, and counts, and no line comes, as long as net.netfilter.nf_log_all_netns of the initial
#          namespace is 0, which is its default. The namespace itself has no such setting.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nftables=1.0.6-2+deb12u2 'iputils-ping=3:20221126-1+deb12u1' iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

dmesg >"$tmp/log" 2>&1 || skip "the kernel's log is not for this user"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'nft add table ip t' 2>"$tmp/try" || skip "no nf_tables in this kernel"
[ "$(cat /proc/sys/net/netfilter/nf_log_all_netns 2>"$tmp/try" || echo 1)" = 0 ] ||
    skip "not in the initial network namespace, or nf_log_all_netns is on"

# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    nft "add table ip t; add chain ip t c { type filter hook output priority 0; policy accept; }"
    nft add rule ip t c counter log prefix "\"finding-$1 \""
    ping -q -c 1 127.0.0.1 >"$0/ping"
    nft list chain ip t c | sed -n "s/.*\(counter packets [0-9]*\) .*log.*/\1/p"
    echo "lines in the log: $(dmesg | grep -c "finding-$1 ")"
    [ -e /proc/sys/net/netfilter/nf_log_all_netns ] || echo "no nf_log_all_netns here"' "$tmp" $$)
expected='counter packets 2
lines in the log: 0
no nf_log_all_netns here'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
