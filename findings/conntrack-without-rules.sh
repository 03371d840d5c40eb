#!/bin/sh
# Without a rule that asks for it a namespace tracks no connection.
#
# Guess:   `conntrack -L` in a namespace shows its connections, as on a machine with a firewall.
# Package: conntrack 1:1.4.7-1+b2, nftables 1.0.6-2+deb12u2, iputils-ping 3:20221126-1+deb12u1, iproute2 6.1.0-3
#          (Debian 12), on Linux 6.18.
# Happens: it shows none, and the count stays 0, nor does a chain change that, until a rule in this namespace uses a
#          connection's state. `conntrack -L` says nothing of that.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    'conntrack=1:1.4.7-1+b2' nftables=1.0.6-2+deb12u2 'iputils-ping=3:20221126-1+deb12u1' \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
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
alone 'nft add table ip t && conntrack -C' >"$tmp/try" 2>&1 || skip "no nf_tables or no conntrack in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    look() {
        ping -q -c 1 127.0.0.1 >"$0" 2>&1
        echo "$1: $(conntrack -L 2>>"$0" | grep -c icmp) listed, count $(conntrack -C)"
    }
    look "no rules"
    nft "add table ip t; add chain ip t c { type filter hook output priority 0; policy accept; }"
    nft add rule ip t c counter accept
    look "a rule that counts"
    nft insert rule ip t c ct state new accept
    look "a rule with ct state"' "$tmp/out")
expected='no rules: 0 listed, count 0
a rule that counts: 0 listed, count 0
a rule with ct state: 1 listed, count 1'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
