#!/bin/sh
# tcprewrite --pnat leaves the old addresses in the packets that ICMP errors quote.
#
# Guess:   it rewrites addresses as NAT does: in IP headers, in ARP, and in the header within an ICMP error.
# Package: tcpreplay 4.4.3-1, tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: IP headers and ARP are rewritten, the quoted header is not: "port unreachable" of 10.9.0.2 speaks of a
#          packet from 10.0.0.1. A host to which that is replayed finds no socket for the error, and an old address
#          stays in a file that was to have none.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    tcpreplay=4.4.3-1 wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 \
    libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
export HOME="$tmp"
python3 - <<'PYTHON'
import struct

def checksum(data):
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    return ~(total + (total >> 16)) & 0xFFFF

def packet(protocol, source, target, payload):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0, source, target)
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload

one, two = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
arp = bytes.fromhex("0001080006040001" "020000000001") + one + bytes(6) + two + bytes(18)
question = packet(17, one, two, struct.pack(">HHHH", 1000, 9, 8, 0))
error = struct.pack(">BBHI", 3, 3, 0, 0) + question
error = error[:2] + struct.pack(">H", checksum(error)) + error[4:]
with open("in.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for kind, data in ((0x0806, arp), (0x0800, question), (0x0800, packet(1, two, one, error))):
        frame = bytes.fromhex("020000000002020000000001") + struct.pack(">H", kind) + data
        file.write(struct.pack("<IIII", 1700000000, 0, len(frame), len(frame)) + frame)
PYTHON
tcprewrite --pnat=10.0.0.0/24:10.9.0.0/24 -i in.pcap -o out.pcap
seen=$(tshark -r out.pcap -T fields -E separator=' ' \
    -e arp.src.proto_ipv4 -e arp.dst.proto_ipv4 -e ip.src -e ip.dst 2>err |
    sed 's/^ *//; s/ *$//') || { cat err; exit 1; }
expected='10.9.0.1 10.9.0.2
10.9.0.1 10.9.0.2
10.9.0.2,10.0.0.1 10.9.0.1,10.0.0.2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
