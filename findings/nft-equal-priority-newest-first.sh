#!/bin/sh
# Of nftables chains with equal priority the newest runs first.
#
# Guess:   chains of one hook and priority run in the order in which they were added, as `nft list ruleset` shows them.
# Package: nftables 1.0.6-2+deb12u2 (Debian 12), on Linux 6.18.
# Happens: a new chain is put before older ones of its priority, also of other tables. Here each chain appends its
#          number to the packet's mark: chains added as 1, 2, 3 leave 321, while `nft list ruleset` shows them by age.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" nftables=1.0.6-2+deb12u2 iproute2=6.1.0-3 \
    iputils-ping=3:20221126-1+deb12u1 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'nft add table ip t' 2>/dev/null || skip "no nftables in this kernel"

# Each chain has a rule for each mark that chains before it may have left; the last rule that matched has them all.
# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    order() {
        nft "add table ip a; add table ip b"
        at=0
        for table in "$@"; do
            at=$((at + 1))
            nft "add chain ip $table c$at { type filter hook input priority 0; }"
            for before in 0 1 2 3 12 13 21 23 31 32; do
                nft "add rule ip $table c$at icmp type echo-request mark $before counter mark set ${before#0}$at accept"
            done
        done
        ping -q -c 1 127.0.0.1 >/dev/null
        ran=$(nft list ruleset | sed -n "s/.*counter packets 1 .*mark set 0x\([0-9a-f]*\) .*/0x\1/p" |
            while read -r mark; do echo $((mark)); done | sort -n | tail -n 1)
        echo "chains 1, 2, 3 of tables $*: ran as $ran"
        nft flush ruleset
    }
    order a a a
    order a b a
    order b a b')
expected='chains 1, 2, 3 of tables a a a: ran as 321
chains 1, 2, 3 of tables a b a: ran as 321
chains 1, 2, 3 of tables b a b: ran as 321'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
