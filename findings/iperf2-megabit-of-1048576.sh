#!/bin/sh
# `iperf -u -b 10M` sends 10485760 bits a second, and `iperf3 -u -b 10M` 10000000.
#
# Guess:   10M of a rate is ten million bits a second in both, and one test may take the place of the other.
# Package: iperf 2.1.8+dfsg-1, iperf3 3.12-1+deb12u2 (Debian 12).
# Happens: in iperf 2 a capital M is 1024 * 1024, and a small one a million; iperf3 takes both for a million.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iperf=2.1.8+dfsg-1 iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

# Each sends datagrams of 1000 bytes for two seconds; the nearest of both rates is what it means.
cat >"$tmp/rate.py" <<'PYTHON'
import json
import subprocess

for letter in "Mm":
    common = ["-u", "-c", "127.0.0.1", "-l", "1000", "-b", "10" + letter, "-t", "2"]
    text = subprocess.check_output(["iperf"] + common + ["-p", "5001", "-y", "C"], text=True)
    rates = [("iperf", int(text.split(",")[7]) * 4)]
    text = subprocess.check_output(["iperf3"] + common + ["-p", "5002", "-J"], text=True)
    rates.append(("iperf3", json.loads(text)["end"]["sum"]["bytes"] * 4))
    for name, rate in rates:
        means = min(10 * 1024 * 1024, 10 * 1000 * 1000, key=lambda each: abs(each - rate))
        print("%s -b 10%s: %d bit/s" % (name, letter, means))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    iperf -s -u -p 5001 >log 2>&1 &
    iperf3 -s -p 5002 >>log 2>&1 &
    until grep -q ":1389 " /proc/net/udp && grep -q ":138A " /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
    python3 rate.py' "$tmp" | sort)
expected='iperf -b 10M: 10485760 bit/s
iperf -b 10m: 10000000 bit/s
iperf3 -b 10M: 10000000 bit/s
iperf3 -b 10m: 10000000 bit/s'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
