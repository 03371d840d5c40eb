#!/bin/sh
# scapy leaves out the offset of times that an interface of a pcapng file has.
#
# Guess:   if_tsoffset, the seconds to add to each time of an interface, counts, as the resolution (if_tsresol) does.
# Package: scapy 2.8.0, dpkt 1.9.8 (PyPI), tcpdump 4.99.3-1 (Debian 12).
# Happens: a packet of 2023 is one of 1970 in scapy. dpkt and tcpdump add the offset.
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
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps scapy==2.8.0 dpkt==1.9.8 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
export HOME="$tmp"
seen=$(
    venv/bin/python - 2>log <<'PYTHON'
import struct

import dpkt
from scapy.utils import rdpcap

FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(46)

def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

with open("file.pcapng", "wb") as file:
    file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    # An offset, and milliseconds.
    options = struct.pack("<HHq", 14, 8, 1700000000) + struct.pack("<HHB3xI", 9, 1, 3, 0)
    file.write(block(1, struct.pack("<HHI", 1, 0, 0) + options))
    file.write(block(6, struct.pack("<IIIII", 0, 0, 1500, 60, 60) + FRAME))
print("scapy: %.1f" % rdpcap("file.pcapng")[0].time)
with open("file.pcapng", "rb") as file:
    print("dpkt: %.1f" % next(iter(dpkt.pcapng.Reader(file)))[0])
PYTHON
    echo "tcpdump: $(tcpdump -ttn -r file.pcapng 2>>log | sed -n 's/\([0-9]*[.][0-9]\).*/\1/;1p')"
) || { cat log; exit 1; }
expected='scapy: 1.5
dpkt: 1700000001.5
tcpdump: 1700000001.5'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
