#!/bin/sh
# vde_switch cuts frames longer than 1518 bytes, and forwards what is left.
#
# Guess:   a longer frame arrives whole, or is dropped as too long.
# Package: vde-switch 2.3.2+r586-8+b1, vdeplug 4.0.1-4 (Debian 12).
# Happens: its first 1518 bytes arrive: with an MTU above 1504, full packets come with a cut end, whose
#          headers promise more than there is, while small ones pass.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    vde-switch=2.3.2+r586-8+b1 vdeplug=4.0.1-4 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
cat >frames.py <<'PYTHON'
import select
import struct
import subprocess

def plug():
    return subprocess.Popen(["vde_plug", "switch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def send(plug, length):
    frame = b"\xff" * 6 + bytes.fromhex("02000000000188b5") + bytes(byte & 255 for byte in range(length - 14))
    plug.stdin.write(struct.pack("!H", length) + frame)
    plug.stdin.flush()
    return frame

def receive(plug):
    return plug.stdout.read(struct.unpack("!H", plug.stdout.read(2))[0])

# Frames of 60 bytes until the first one arrives: then both are at the switch. Behind each frame goes one of 61.
one, two = plug(), plug()
send(one, 60)
while not select.select([two.stdout], [], [], 0.1)[0]:
    send(one, 60)
for length in (1514, 1518, 1519, 1600, 9000):
    frame = send(one, length)
    send(one, 61)
    seen = receive(two)
    while len(seen) == 60:
        seen = receive(two)
    if len(seen) == 61:
        print("%d bytes: nothing arrives" % length)
        continue
    receive(two)
    part = "the first %d" % len(seen) if frame.startswith(seen) else "others"
    print("%d bytes: %s arrive" % (length, "all" if seen == frame else part))
PYTHON
# The switch and the plugs end with the first process of their own process namespace.
# shellcheck disable=SC2016
seen=$(alone '
    vde_switch --sock switch --daemon >log 2>&1
    until [ -S switch/ctl ]; do sleep 0.1; done
    python3 frames.py') || { cat log; exit 1; }
expected='1514 bytes: all arrive
1518 bytes: all arrive
1519 bytes: the first 1518 arrive
1600 bytes: the first 1518 arrive
9000 bytes: the first 1518 arrive'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
