#!/bin/sh
# scapy and dpkt do not know Ethernet in a pcap file whose header says that frames have their check sequence.
#
# Guess:   readers take the link type from the low bits of its field, and cut off the FCS or leave it.
# Package: scapy 2.8.0, dpkt 1.9.8 (PyPI), tshark 4.0.17-0+deb12u3, tcpdump 4.99.3-1 (Debian 12).
# Happens: both take all 32 bits for the link type, 603979777 instead of 1: scapy has raw bytes, without a layer or an
#          address, dpkt hands on the number. tshark shows the frame and its FCS, tcpdump the frame.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 tcpdump=4.99.3-1 \
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
seen=$(
    venv/bin/python - 2>log <<'PYTHON'
import struct

import dpkt
from scapy.utils import rdpcap

FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(46)
with open("file.pcap", "wb") as file:
    # Four bits for the length of the FCS in units of 16 bits, then one that says that they count.
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 2 << 28 | 1 << 26 | 1))
    file.write(struct.pack("<IIII", 1700000000, 0, 64, 64) + FRAME + bytes.fromhex("01020304"))
print("scapy:", rdpcap("file.pcap")[0].summary())
with open("file.pcap", "rb") as file:
    print("dpkt: link type", dpkt.pcap.Reader(file).datalink())
PYTHON
    echo "tshark: $(tshark -r file.pcap -T fields -E separator=/s -e eth.dst -e eth.fcs 2>>log)"
    echo "tcpdump: $(tcpdump -ent -r file.pcap 2>>log | sed -n 's/,.*//;1p')"
) || { cat log; exit 1; }
expected='scapy: Raw
dpkt: link type 603979777
tshark: 02:00:00:00:00:02 0x01020304
tcpdump: 02:00:00:00:00:01 > 02:00:00:00:00:02'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
