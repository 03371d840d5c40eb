#!/bin/sh
# `tcpdump -r FILE -w OUT-%s -G 10` writes one file, named by the time of day.
#
# Guess:   it cuts a capture of a minute into pieces of ten seconds, by the times of its packets.
# Package: tcpdump 4.99.3-1 (Debian 12).
# Happens: -G looks at the clock, not at the packets: what is read in less than ten seconds goes into one file, whose
#          name has the time when it was read.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    tcpdump=4.99.3-1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

# It gives up its rights for another user, who may not write here, unless it is told to keep them.
[ "$(id -u)" -eq 0 ] || skip "tcpdump -Z wants root"
cd "$tmp"
python3 - <<'PYTHON'
import struct

frame = bytes.fromhex("02000000000202000000000188b5") + bytes(46)
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for second in range(60):
        file.write(struct.pack("<IIII", 1700000000 + second, 0, len(frame), len(frame)) + frame)
PYTHON
began=$(date +%s)
tcpdump -Z root -r file.pcap -w out-%s -G 10 2>said
seen=$(
    echo "tcpdump: $(find . -name 'out-*' | wc -l) file, $(tcpdump -r out-* --count 2>said)"
    named=$(echo out-*)
    if [ "${named#out-}" -ge "$began" ]; then echo "tcpdump: named by the clock"; else echo "tcpdump: $named"; fi
)
expected='tcpdump: 1 file, 60 packets
tcpdump: named by the clock'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
