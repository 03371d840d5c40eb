#!/bin/sh
# Simple packets of a pcapng file are missing in dpkt, and empty in scapy.
#
# Guess:   a Simple Packet Block is read as a packet without a time.
# Package: scapy 2.8.0, dpkt 1.9.8 (PyPI), tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: dpkt passes over it, and counts fewer packets than there are. scapy has a packet of 0 bytes where the
#          interface's snapshot length is 0, which means that there is no limit; with one of 65535 it has them all.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 \
    libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps scapy==2.8.0 dpkt==1.9.8 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
export HOME="$tmp"
for limit in 65535 0; do
    venv/bin/python - "$limit" 2>log <<'PYTHON'
import struct
import sys

import dpkt
from scapy.utils import RawPcapNgReader

FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(46)

def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

with open("file.pcapng", "wb") as file:
    file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    file.write(block(1, struct.pack("<HHI", 1, 0, int(sys.argv[1]))))
    file.write(block(6, struct.pack("<IIIII", 0, 0, 0, 60, 60) + FRAME))
    file.write(block(3, struct.pack("<I", 60) + FRAME))
def told(sizes):
    return " ".join(str(size) for size in sizes)
with open("file.pcapng", "rb") as file:
    print("limit %s, dpkt:" % sys.argv[1], told(len(frame) for _, frame in dpkt.pcapng.Reader(file)))
print("limit %s, scapy:" % sys.argv[1], told(len(frame) for frame, *_ in RawPcapNgReader("file.pcapng")))
PYTHON
    echo "limit $limit, tshark: $(tshark -r file.pcapng -T fields -e frame.cap_len 2>>log | paste -sd ' ')"
done >told || { cat log; exit 1; }
seen=$(cat told)
expected='limit 65535, dpkt: 60
limit 65535, scapy: 60 60
limit 65535, tshark: 60 60
limit 0, dpkt: 60
limit 0, scapy: 60 0
limit 0, tshark: 60 60'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
