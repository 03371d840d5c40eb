#!/bin/sh
# What was added to a merging set of nftables can often not be deleted as it was added.
#
# Guess:   with `auto-merge` who adds 10.0.0.0/25 may delete 10.0.0.0/25, whatever else is in the set.
# Package: nftables 1.0.6-2+deb12u2 (Debian 12), on Linux 6.18.
# Happens: 10.0.0.0/25 and 10.0.0.128/25 become 10.0.0.0/24, and deleting one of them is an error, "element does not
#          exist"; both stay. Which works depends on the neighbours that others added.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nftables=1.0.6-2+deb12u2 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
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
    elements() { nft list set ip t s | sed -n "s/.*elements = //p"; }
    nft "add table ip t; add set ip t s { type ipv4_addr; flags interval; auto-merge; }"
    for network in 10.0.0.0/25 10.0.0.128/25 10.9.0.0/25; do nft add element ip t s "{ $network }"; done
    echo "three added: $(elements)"
    for network in 10.0.0.0/25 10.0.0.128/25 10.9.0.0/25 10.0.0.0/24; do
        if nft delete element ip t s "{ $network }" 2>"$0/said"; then
            said=deleted
        else
            said=$(sed -n "s/.*Error: //p" "$0/said")
        fi
        echo "delete $network: $said"
    done' "$tmp")
expected='three added: { 10.0.0.0/24, 10.9.0.0/25 }
delete 10.0.0.0/25: element does not exist
delete 10.0.0.128/25: element does not exist
delete 10.9.0.0/25: deleted
delete 10.0.0.0/24: deleted'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
