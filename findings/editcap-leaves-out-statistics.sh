#!/bin/sh
# `editcap IN OUT` leaves out how many frames were lost.
#
# Guess:   without options it copies the file, with all that it says: only packets that are not wanted go.
# Package: wireshark-common, tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: Interface Statistics Blocks are gone, which say how many frames came and how many were lost (isb_ifdrop),
#          and so are the names of addresses, each packet's hash and the interface's addresses. Comments and
#          epb_dropcount stay. `tshark -r IN -w OUT`, mergecap and reordercap do the same.
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

frame = bytes.fromhex("02000000000202000000000188b5") + bytes(46)
time = struct.pack("<II", 1000000 >> 32, 1000000)
section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
addresses = option(4, bytes([10, 0, 0, 1, 255, 255, 255, 0])) + option(6, bytes([2, 0, 0, 0, 0, 1]))
interface = block(1, struct.pack("<HHI", 1, 0, 65535) + option(2, b"eth0") + addresses + bytes(4))
names = block(4, struct.pack("<HH", 1, 12) + bytes([10, 0, 0, 9]) + b"web.lab\0" + bytes(4))
options = option(1, b"a comment") + option(3, b"\2\1\2\3\4") + option(4, struct.pack("<Q", 3)) + bytes(4)
packet = block(6, struct.pack("<I", 0) + time + struct.pack("<II", len(frame), len(frame)) + frame + options)
counts = option(4, struct.pack("<Q", 10)) + option(5, struct.pack("<Q", 9)) + bytes(4)
statistics = block(5, struct.pack("<I", 0) + time + counts)
with open("in.pcapng", "wb") as file:
    file.write(section + interface + names + packet + statistics)
PYTHON
cat >show.py <<'PYTHON'
import struct
import sys

NAMES = {(1, 4): "if_IPv4addr", (1, 6): "if_MACaddr", (6, 1): "comment", (6, 3): "epb_hash", (6, 4): "epb_dropcount",
         (5, 4): "isb_ifrecv", (5, 5): "isb_ifdrop"}
with open(sys.argv[2], "rb") as file:
    data = file.read()
found, at = [], 0
while at < len(data):
    kind, length = struct.unpack_from("<II", data, at)
    body = data[at + 8:at + length - 4]
    start = {1: 8, 5: 12, 6: 20}.get(kind, len(body))
    if kind == 6:
        start += (struct.unpack_from("<I", body, 12)[0] + 3) // 4 * 4
    while start + 4 <= len(body):
        code, size = struct.unpack_from("<HH", body, start)
        if (kind, code) in NAMES:
            found.append(NAMES[kind, code])
        start += 4 + (size + 3) // 4 * 4
    if kind == 4:
        found.append("names")
    at += length
print("%s: %s" % (sys.argv[1], " ".join(found)))
PYTHON
python3 write.py
seen=$(
    python3 show.py IN in.pcapng
    editcap in.pcapng edited.pcapng
    python3 show.py editcap edited.pcapng
    tshark -r in.pcapng -w written.pcapng 2>err
    python3 show.py tshark written.pcapng
    mergecap -w merged.pcapng in.pcapng
    python3 show.py mergecap merged.pcapng
    reordercap in.pcapng ordered.pcapng >/dev/null
    python3 show.py reordercap ordered.pcapng
) || { cat err; exit 1; }
expected='IN: if_IPv4addr if_MACaddr names comment epb_hash epb_dropcount isb_ifrecv isb_ifdrop
editcap: comment epb_dropcount
tshark: comment epb_dropcount
mergecap: comment epb_dropcount
reordercap: comment epb_dropcount'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
