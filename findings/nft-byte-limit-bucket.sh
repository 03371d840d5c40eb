#!/bin/sh
# The bucket of an nftables limit in bytes holds a whole period's rate beside its burst.
#
# Guess:   `limit rate over 60 kbytes/minute burst 1 kbytes` lets 1 kbyte through at once, then 60 kbytes a minute; as
#          `limit rate over 60/minute burst 1 packets` lets one packet through, then one a second.
# Package: nftables 1.0.6-2+deb12u2 (Debian 12), on Linux 6.18.
# Happens: for packets the bucket is the burst. For bytes it is the rate of the period and the burst: of 100 packets of
#          1,024 bytes sent at once 61 pass. The longer the period, the larger the flood that a "slow" limit lets in.
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

# 100 echo requests at once take milliseconds; the limits refill one packet or 1,024 bytes a second.
# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    passed() {
        nft -f - <<-RULES
			table ip t {
			    chain c {
			        type filter hook input priority filter
			        icmp type != echo-request accept
			        limit rate over $1 drop
			        counter
			    }
			}
			RULES
        ping -q -c 100 -l 100 -s 996 -W 0.1 127.0.0.1 >/dev/null || :
        echo "$1: $(nft list ruleset | sed -n "s/.*counter packets \([0-9]*\).*/\1/p") of 100 packets pass"
        nft flush ruleset
    }
    passed "60/minute burst 1 packets"
    passed "60 kbytes/minute burst 1 kbytes"
    passed "1 kbytes/second burst 1 kbytes"')
expected='60/minute burst 1 packets: 1 of 100 packets pass
60 kbytes/minute burst 1 kbytes: 61 of 100 packets pass
1 kbytes/second burst 1 kbytes: 2 of 100 packets pass'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
