#!/bin/sh
# A rule of nftables that adds to a full set ends there: what stands behind it is not done.
#
# Guess:   the address is not added, or takes the place of another one, and the rule goes on: `add @s { ip daddr }
#          accept` accepts.
# Package: nftables 1.0.6-2+deb12u2, iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: with `size 2` the third address does not match: it is neither counted nor accepted, and the next rule,
#          which drops, has it. Addresses that are in the set pass as before. Nothing is said. So it is with `update`.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nftables=1.0.6-2+deb12u2 iproute2=6.1.0-3 'iputils-ping=3:20221126-1+deb12u1' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

alone 'nft add table ip t' 2>/dev/null || skip "no nftables in this kernel"
# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    for verb in add update; do
        nft -f - <<NFT
table ip t {
    set s {
        type ipv4_addr
        size 2
        flags dynamic
    }
    chain c {
        type filter hook output priority 0
        icmp type echo-request $verb @s { ip daddr } accept
        icmp type echo-request drop
    }
}
NFT
        for address in 127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.1; do
            if ping -q -c 1 -W 1 "$address" >/dev/null 2>&1; then answer=accepted; else answer=dropped; fi
            echo "$verb, $address: $answer"
        done
        nft flush ruleset
    done')
expected='add, 127.0.0.1: accepted
add, 127.0.0.2: accepted
add, 127.0.0.3: dropped
add, 127.0.0.1: accepted
update, 127.0.0.1: accepted
update, 127.0.0.2: accepted
update, 127.0.0.3: dropped
update, 127.0.0.1: accepted'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
