#!/bin/sh
# The 32nd plug at a vde_switch runs, and is not connected; nobody says so.
#
# Guess:   a switch without a number of ports takes as many as come, or refuses a plug with an error.
# Package: vde-switch 2.3.2+r586-8+b1, vdeplug 4.0.1-4 (Debian 12).
# Happens: it has 32 ports, one of which it does not give away. Further plugs neither end nor say anything, and frames
#          from them and to them go nowhere. With `-n 64` they arrive.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    vde-switch=2.3.2+r586-8+b1 vdeplug=4.0.1-4 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cd "$tmp"
cat >plugs.py <<'PYTHON'
import select
import struct
import subprocess
import sys
import time

FRAME = b"\xff" * 6 + bytes.fromhex("02000000000188b5") + bytes(46)
plugs = []

def plug():
    plugs.append(subprocess.Popen(["vde_plug", "switch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT))
    return plugs[-1]

# The first one sends; another one is there when it gets a frame, which takes no second.
first = plug()
there = 1
for number in range(2, 37):
    one, arrived, end = plug(), False, time.monotonic() + (10 if number <= 31 else 2)
    while not arrived and time.monotonic() < end:
        first.stdin.write(struct.pack("!H", len(FRAME)) + FRAME)
        first.stdin.flush()
        arrived = bool(select.select([one.stdout], [], [], 0.05)[0])
    if arrived and one.stdout.read(2 + len(FRAME))[2:] == FRAME:
        there += 1
print("%s: %d of 36 plugs get frames, %d run" % (sys.argv[1], there, sum(each.poll() is None for each in plugs)))
PYTHON
# shellcheck disable=SC2016
show() {
    alone '
        vde_switch --sock switch --daemon $2 >log 2>&1
        until [ -S switch/ctl ]; do sleep 0.1; done
        python3 plugs.py "$1"' sh "$@"
    rm -rf switch
}
seen=$(
    show "as it is" ""
    show "-n 64" "-n 64"
) || { cat log; exit 1; }
expected='as it is: 31 of 36 plugs get frames, 36 run
-n 64: 36 of 36 plugs get frames, 36 run'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
