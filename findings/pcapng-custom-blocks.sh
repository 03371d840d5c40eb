#!/bin/sh
# A custom block in a pcapng file is a frame for Wireshark: it moves the numbers of all frames after it.
#
# Guess:   a reader skips blocks that it does not know, as the format's specification asks.
# Package: tshark, wireshark-common 4.0.17-0+deb12u3, tcpdump 4.99.3-1 with libpcap 1.10.3-1 (Debian 12).
# Happens: of three packets with a custom block (0x00000BAD) after each, tshark makes six frames: the packets are 1, 3
#          and 5. capinfos and tcpdump see three packets, but capinfos can no longer tell when the first one was
#          captured. A block of a local-use type (0x80000001) is skipped by all three.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

command -v python3 >/dev/null || skip "no python3"
mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" tshark=4.0.17-0+deb12u3 \
    wireshark-common=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 \
    tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/bin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH HOME="$tmp"

cd "$tmp"
python3 - <<'PYTHON'
import struct

def block(kind, body):
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length

def packet(second):
    frame = bytes.fromhex("020000000002" "020000000001" "88b5") + bytes(46)
    time = second * 1000000
    return block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame)) + frame)

start = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 262144))
# The number of an enterprise that is reserved for documentation (RFC 5612), and four bytes of its data.
for name, kind in ("custom", 0x00000BAD), ("local", 0x80000001):
    extra = block(kind, struct.pack("<I", 32473) + b"data")
    with open(name, "wb") as file:
        file.write(start + b"".join(packet(1700000000 + n) + extra for n in range(3)))
PYTHON

show() {
    echo "$1 blocks:"
    echo "  tshark:   $(tshark -n -r "$1" -T fields -e frame.number -e frame.protocols 2>/dev/null | tr '\t\n' ' ;')"
    echo "  capinfos: $(TZ=UTC capinfos -T -r -m -c -a "$1" 2>/dev/null | cut -d, -f2-)"
    # As root, tcpdump would become a user that this machine may lack.
    echo "  tcpdump:  $(tcpdump -n -q -Z root -r "$1" 2>/dev/null | wc -l) packets"
}
seen=$(show custom; show local)
expected='custom blocks:
  tshark:   1 eth:ethertype:data;2 data;3 eth:ethertype:data;4 data;5 eth:ethertype:data;6 data;
  capinfos: 3,n/a
  tcpdump:  3 packets
local blocks:
  tshark:   1 eth:ethertype:data;2 eth:ethertype:data;3 eth:ethertype:data;
  capinfos: 3,2023-11-14 22:13:20.000000
  tcpdump:  3 packets'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
