#!/bin/sh
# Hours of an iptables rule are other hours after iptables-translate, unless the machine's zone is UTC.
#
# Guess:   the nftables rule that `iptables-translate` gives applies when the iptables rule does.
# Package: iptables 1.8.9-2, nftables 1.0.6-2+deb12u2 (Debian 12), on Linux 6.18.
# Happens: `-m time` is in UTC, `meta hour` in the zone of whom nft runs for, and the hours are written as they were: 10
#          to 12 becomes 1 to 3 UTC in Japan. With `--kerneltz`, for the local zone, the translation is the same.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iptables=1.8.9-2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 libip6tc2=1.8.9-2 \
    nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2 >"$tmp/apt" 2>&1 ||
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
alone 'nft add table filter' 2>/dev/null || skip "no nftables in this kernel"
for folder in "$tmp"/root/usr/lib/*-linux-gnu*/xtables; do export XTABLES_LIBDIR="$folder"; done

# shellcheck disable=SC2016
seen=$(alone '
    translated() {
        iptables-translate -A FORWARD -m time --timestart 10:00 --timestop 12:00 "$@" -j DROP |
            sed "s/.*\(meta hour.*\) counter.*/\1/"
    }
    echo "translated: $(translated)"
    echo "with --kerneltz: $(translated --kerneltz)"
    show() {
        nft flush ruleset
        nft add table filter
        nft add chain filter FORWARD
        TZ=$1 nft add rule filter FORWARD "$(translated)" drop
        echo "in force where it is $2: $(TZ=UTC nft list chain filter FORWARD | grep -o "meta hour [^ ]*") UTC"
    }
    show UTC UTC
    show JST-9 "UTC+9"')
expected='translated: meta hour "10:00:00"-"12:00:00"
with --kerneltz: meta hour "10:00:00"-"12:00:00"
in force where it is UTC: meta hour "10:00"-"12:00" UTC
in force where it is UTC+9: meta hour "01:00"-"03:00" UTC'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
