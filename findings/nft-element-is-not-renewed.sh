#!/bin/sh
# Adding an element of an nftables set once more does not renew its time, as adding an entry of an ipset does.
#
# Guess:   `nft add element` of an element that is there restarts its timeout, as `ipset add -exist` does, or is
#          refused.
# Package: nftables 1.0.6-2+deb12u2, ipset 7.17-1 (Debian 12), on Linux 6.18.
# Happens: nft says nothing, and the element goes when its first time is over; the ipset entry has its whole time again.
#          If the element is added with a timeout other than the set's, that counts.
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
alone 'ipset create s hash:ip' 2>/dev/null || skip "no ipset in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    nft add table t
    nft "add set t s { type ipv4_addr; timeout 50s; }"
    ipset create s hash:ip timeout 50
    left() {
        nft=$(nft list set t s | sed -n "s/.*expires \([0-9]*\)s.*/\1/p")
        ipset=$(ipset list s | sed -n "s/^10.0.0.1 timeout //p")
        for seconds in "$nft" "$ipset"; do
            if [ "$seconds" -ge 48 ]; then echo whole; else echo less; fi
        done | paste -sd " "
    }
    add() { nft "add element t s { 10.0.0.1 $1 }"; ipset add -exist s 10.0.0.1; }
    add ""
    echo "added, nft and ipset: $(left)"
    sleep 4
    echo "four seconds later: $(left)"
    add ""
    echo "added once more: $(left)"
    add "timeout 55s"
    echo "nft with a timeout of 55 s: $(left)"')
expected='added, nft and ipset: whole whole
four seconds later: less less
added once more: less whole
nft with a timeout of 55 s: whole whole'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
