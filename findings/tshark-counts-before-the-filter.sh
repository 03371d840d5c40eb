#!/bin/sh
# `tshark -r FILE -Y udp -c 1` shows nothing if the first frame of the file is not UDP.
#
# Guess:   `-c 1` ends after the first frame that the filter keeps, as tcpdump's does.
# Package: tshark 4.0.17-0+deb12u3, tcpdump 4.99.3-1 (Debian 12).
# Happens: tshark counts the frames that it reads, also those that the filter leaves out, and the same holds for what it
#          writes with -w: the exit code is 0 and the output is empty. With -c 2 it shows the second frame. tcpdump
#          counts what the filter keeps.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 \
    libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 tcpdump=4.99.3-1 >"$tmp/apt" 2>&1 ||
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

def frame(protocol, port):
    length = {6: 20, 17: 8}[protocol]
    segment = struct.pack(">HH", 40000, port)
    segment += struct.pack(">IIBBHHH", 1, 0, 5 << 4, 2, 1000, 0, 0) if protocol == 6 else struct.pack(">HH", 8, 0)
    packet = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 1, 0, 64, protocol, 0) + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    return bytes.fromhex("0200000000020200000000010800") + packet + segment

with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for time, given in enumerate(((6, 53), (17, 53), (17, 99), (6, 99)), 1):
        data = frame(*given)
        file.write(struct.pack("<IIII", 1700000000 + time, 0, len(data), len(data)) + data)
PYTHON

seen=$(
    shown() { paste -sd ' '; }
    echo "tshark -Y udp -c 1: frames [$(tshark -r file.pcap -Y udp -c 1 -T fields -e frame.number 2>>log | shown)]"
    echo "tshark -Y udp -c 2: frames [$(tshark -r file.pcap -Y udp -c 2 -T fields -e frame.number 2>>log | shown)]"
    code=0
    tshark -r file.pcap -Y udp -c 1 -w kept.pcapng 2>>log || code=$?
    echo "tshark -Y udp -c 1 -w: exit code $code, $(tshark -r kept.pcapng 2>>log | wc -l) frames"
    echo "tcpdump -c 1 udp: $(tcpdump -n -tt -r file.pcap -c 1 udp 2>>log | sed 's/^17000000*\([0-9]\)\..*/\1/')"
) || { cat log; exit 1; }
expected='tshark -Y udp -c 1: frames []
tshark -Y udp -c 2: frames [2]
tshark -Y udp -c 1 -w: exit code 0, 0 frames
tcpdump -c 1 udp: 2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
