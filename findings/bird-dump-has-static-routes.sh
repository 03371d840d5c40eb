#!/bin/sh
# BIRD's table dump in MRT format has static routes as routes of BGP.
#
# Guess:   an MRT table dump is of BGP's routes; those of other protocols in the table are left out.
# Package: bird2 2.0.12-7, bgpdump 1.6.2-2 (Debian 12).
# Happens: a static route is in it, too, from a peer that there is not: address ::, AS 0, without a path. A reader that
#          takes the last AS of a path for the origin finds none.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    bird2=2.0.12-7 bgpdump=1.6.2-2 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/conf" <<CONF
router id 192.0.2.1;
protocol device {}
protocol static plain { ipv4; route 10.9.0.0/16 blackhole; }
protocol mrt { table "master4"; filename "$tmp/dump"; period 1; }
CONF
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    bird -f -c conf -s control >log 2>&1 &
    until [ -s dump ] && bgpdump -m dump 2>>log | grep -q "|10[.]"; do sleep 0.1; done
    kill "$!"
    bgpdump -m dump 2>>log | cut -d "|" -f 1,3- | sort -u' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='TABLE_DUMP2|B|::|0|10.9.0.0/16||INCOMPLETE|255.255.255.255|0|0||NAG||'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
