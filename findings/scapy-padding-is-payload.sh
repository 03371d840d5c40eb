#!/bin/sh
# scapy gives a bare TCP acknowledgement six bytes of payload: the padding of its frame.
#
# Guess:   `len(packet[TCP].payload)` of an acknowledgement without data is 0, and `len(packet[IP])` its total
#          length, 40.
# Package: scapy 2.8.0, dpkt 1.9.8 (PyPI).
# Happens: they are 6 and 46, since the padding of the frame of 60 bytes hangs below TCP as a layer Padding: who adds
#          up the bytes of a connection counts six for each. dpkt has 0 and 40.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps scapy==2.8.0 dpkt==1.9.8 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
seen=$(HOME=$tmp XDG_CACHE_HOME=$tmp XDG_CONFIG_HOME=$tmp venv/bin/python - 2>err <<'PYTHON'
import struct

import dpkt
from scapy.layers.inet import IP, TCP
from scapy.utils import rdpcap

# An acknowledgement of 40 bytes, padded to the least frame (60 bytes without the check sequence).
packet = bytes.fromhex("450000280001000040" "06" "66cd" "0a000001" "0a000002" "03e80050" "00000001" "00000001"
                       "5010ffff" "94c3" "0000")
frame = bytes.fromhex("020000000002" "020000000001" "0800") + packet + bytes(6)
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    file.write(struct.pack("<IIII", 1700000000, 0, len(frame), len(frame)) + frame)

read = rdpcap("file.pcap")[0]
print("scapy: IP %d, payload of TCP %d (%s)" % (len(read[IP]), len(read[TCP].payload), read[TCP].payload.name))
ip = dpkt.ethernet.Ethernet(frame).data
print("dpkt: IP %d, payload of TCP %d" % (len(ip), len(ip.data.data)))
PYTHON
) || { cat err; exit 1; }
expected='scapy: IP 46, payload of TCP 6 (Padding)
dpkt: IP 40, payload of TCP 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
