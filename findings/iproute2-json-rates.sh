#!/bin/sh
# `tc -j` says rates in bytes a second, and `tc` in bits.
#
# Guess:   `"rate"` in JSON is the number of the text: 10000000 where the text has 10Mbit.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: it is 1250000, without a unit, for a rate of tbf that the text calls 10Mbit and that was given as 10mbit.
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
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ip link add name p1 type veth peer name p2
    for rate in 10mbit 1gbit; do
        tc qdisc replace dev p1 root tbf rate "$rate" burst 10k latency 50ms
        text=$(tc qdisc show dev p1 | sed "s/.* rate \([^ ]*\) .*/\1/")
        json=$(tc -j qdisc show dev p1 | python3 -c "import json, sys
print(json.load(sys.stdin)[0][\"options\"][\"rate\"])")
        echo "rate $rate: text $text, JSON $json"
    done')
expected='rate 10mbit: text 10Mbit, JSON 1250000
rate 1gbit: text 1Gbit, JSON 125000000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
