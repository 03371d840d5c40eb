#!/bin/sh
# The report of `iperf -y C` is of 1970, unless there are reports of intervals, too.
#
# Guess:   the first field of each line is the time of the report.
# Package: iperf 2.1.8+dfsg-1 (Debian 12).
# Happens: it is 19700101000000 in UTC where the only line is the one at the end. With `-i 1` each line has its time,
#          and the last one that of the interval before it. Lines of several tests cannot be told apart by their
#          times.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iperf=2.1.8+dfsg-1 >"$tmp/apt" 2>&1 ||
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

export TZ=UTC
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    iperf -s -p 5001 >log 2>&1 &
    until grep -q ":1389 " /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
    show() {
        name=$1
        shift
        began=$(date +%Y%m%d%H%M%S)
        iperf -c 127.0.0.1 -p 5001 -y C "$@" | cut -d , -f 1,7 | while IFS=, read -r time interval; do
            [ "$time" -lt "$began" ] || time=now
            echo "$name, seconds $interval: $time"
        done
    }
    show "-t 2" -t 2
    show "-t 2 -i 1" -t 2 -i 1' "$tmp" 2>"$tmp/err") || { cat "$tmp/err"; exit 1; }
expected='-t 2, seconds 0.0-2.0: 19700101000000
-t 2 -i 1, seconds 0.0-1.0: now
-t 2 -i 1, seconds 1.0-2.0: now
-t 2 -i 1, seconds 0.0-2.0: now'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
