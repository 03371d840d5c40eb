#!/bin/sh
# dpkt ends without a word at a pcapng section of the other byte order.
#
# Guess:   each section says its byte order, so a big-endian section behind a little-endian one is read, or is an error.
# Package: dpkt 1.9.8, scapy 2.8.0 (PyPI), tcpdump 4.99.3-1 (Debian 12).
# Happens: dpkt yields the packets of the first section, and then ends as at the end of the file (the format's section
#          4.1 lets sections differ). A second section of the same byte order is read. scapy reads both; libpcap says
#          that it cannot.
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
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps dpkt==1.9.8 scapy==2.8.0 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
export HOME="$tmp"
seen=$(
    venv/bin/python - 2>log <<'PYTHON'
import struct

FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(46)

def block(kind, body, order="<"):
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length

def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)

def capture(time, order="<"):
    interface = block(1, struct.pack(order + "HHI", 1, 0, 0), order)
    packet = struct.pack(order + "IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(FRAME), len(FRAME)) + FRAME
    return section(order) + interface + block(6, packet, order)

import dpkt
from scapy.utils import rdpcap

TIME = 1700000000 * 1000000
for name, order in (("same order", "<"), ("other order", ">")):
    with open(name, "wb") as file:
        file.write(capture(TIME) + capture(TIME + 1, order))
    with open(name, "rb") as file:
        print("dpkt, %s: %d packet(s)" % (name, len(list(dpkt.pcapng.Reader(file)))))
    print("scapy, %s: %d packet(s)" % (name, len(rdpcap(name))))
PYTHON
    for name in "same order" "other order"; do
        code=0
        tcpdump -n -r "$name" >out 2>err || code=$?
        echo "tcpdump, $name: $(grep -c '^[0-9][0-9]:' out) packet(s), exit code $code"
    done
) || { cat log; exit 1; }
expected='dpkt, same order: 2 packet(s)
scapy, same order: 2 packet(s)
dpkt, other order: 1 packet(s)
scapy, other order: 2 packet(s)
tcpdump, same order: 2 packet(s), exit code 0
tcpdump, other order: 1 packet(s), exit code 1'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
