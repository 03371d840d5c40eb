#!/bin/sh
# Wireshark's tools write a packet's verdict into the option of its queue.
#
# Guess:   what XDP or a card did with a packet (epb_verdict) is copied as it is, or left out.
# Package: wireshark-common, tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: editcap, and tshark with -w, write a second epb_queue (6) of nine bytes instead of epb_verdict (7), though
#          that option has four: "passed by XDP" becomes a wrong queue. Where the packet has no queue of its own, it
#          gets one.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 \
    libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
export HOME="$tmp"
cat >write.py <<'PYTHON'
import struct

def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)

def packet(options):
    frame = bytes.fromhex("02000000000202000000000188b5") + bytes(46)
    head = struct.pack("<IIIII", 0, 0, 1000000, len(frame), len(frame))
    return block(6, head + frame + options + bytes(4))

queue = option(6, struct.pack("<I", 3))
passed = option(7, b"\1" + struct.pack("<Q", 2))
with open("in.pcapng", "wb") as file:
    file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    file.write(block(1, struct.pack("<HHI", 1, 0, 65535)))
    file.write(packet(queue + passed) + packet(passed) + packet(queue))
PYTHON
cat >show.py <<'PYTHON'
import struct
import sys

with open(sys.argv[2], "rb") as file:
    data = file.read()
packets, at = [], 0
while at < len(data):
    kind, length = struct.unpack_from("<II", data, at)
    options, start = [], at + 8 + 20 + 60
    while kind == 6 and start + 4 <= at + length - 4:
        code, size = struct.unpack_from("<HH", data, start)
        if code in (6, 7):
            options.append("%s %s" % ({6: "queue", 7: "verdict"}[code], data[start + 4:start + 4 + size].hex()))
        start += 4 + (size + 3) // 4 * 4
    if kind == 6:
        packets.append(", ".join(options))
    at += length
print("%s: %s" % (sys.argv[1], " | ".join(packets)))
PYTHON
python3 write.py
seen=$(
    python3 show.py IN in.pcapng
    editcap in.pcapng edited.pcapng
    python3 show.py editcap edited.pcapng
    tshark -r in.pcapng -w written.pcapng 2>err
    python3 show.py tshark written.pcapng
) || { cat err; exit 1; }
expected='IN: queue 03000000, verdict 010200000000000000 | verdict 010200000000000000 | queue 03000000
editcap: queue 03000000, queue 010200000000000000 | queue 010200000000000000 | queue 03000000
tshark: queue 03000000, queue 010200000000000000 | queue 010200000000000000 | queue 03000000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
