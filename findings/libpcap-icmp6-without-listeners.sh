#!/bin/sh
# The capture filter `icmp6` leaves out multicast listener reports, which are ICMPv6.
#
# Guess:   `icmp6` keeps all ICMPv6, as tshark's `icmpv6` shows all.
# Package: tcpdump 4.99.3-1, libpcap 1.10.3-1, wireshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: it compares the first next header alone, and listener reports (and queries) stand behind a hop-by-hop
#          header: a capture with `icmp6` shows no MLD at all. `ip6 protochain 58` has them.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 tshark=4.0.17-0+deb12u3 \
    wireshark-common=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
# A neighbour solicitation, and a multicast listener report behind a hop-by-hop header, as RFC 3810 has it.
python3 - <<'PYTHON'
import struct

source = bytes.fromhex("fe800000000000000000000000000001")
def summed(payload, target):
    data = source + target + struct.pack("!II", len(payload), 58) + payload
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xFFFF)
    return payload[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + payload[4:]

def frame(target, first, hops, payload):
    header = struct.pack("!IHBB", 0x60000000, len(payload), first, hops) + source + target
    return bytes.fromhex("333300000016" "020000000001" "86dd") + header + payload

listeners = bytes.fromhex("ff020000000000000000000000000016")
report = bytes.fromhex("8f00000000000001" "04000000" "ff020000000000000000000000000101")
wanted = bytes.fromhex("ff0200000000000000000001ff000002")
asked = bytes.fromhex("8700000000000000" "fe800000000000000000000000000002")
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for packet in (frame(wanted, 58, 255, summed(asked, wanted)),
                   frame(listeners, 0, 1, bytes.fromhex("3a00050200000100") + summed(report, listeners))):
        file.write(struct.pack("<IIII", 1700000000, 0, len(packet), len(packet)) + packet)
PYTHON

seen=$(
    for filter in icmp6 "ip6 proto 58" "ip6 protochain 58"; do
        echo "tcpdump $filter: $(tcpdump -n -r file.pcap "$filter" 2>/dev/null | wc -l)"
    done
    echo "tshark icmpv6: $(tshark -r file.pcap -Y icmpv6 2>/dev/null | wc -l)"
)
expected='tcpdump icmp6: 1
tcpdump ip6 proto 58: 1
tcpdump ip6 protochain 58: 2
tshark icmpv6: 2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
