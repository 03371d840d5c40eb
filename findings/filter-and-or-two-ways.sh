#!/bin/sh
# `udp or tcp and port 53` is another filter for tcpdump than for tshark's display.
#
# Guess:   `and` binds tighter than `or` in both, as in most languages: UDP, or TCP of port 53.
# Package: tcpdump 4.99.3-1, libpcap 1.10.3-1, tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: in a capture filter both bind alike, from the left: what is UDP or TCP, and of port 53, as if there were
#          parentheses. UDP of other ports is lost. A display filter has the guess.
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
    # Each frame's number is its second.
    capture() {
        kept=$(tcpdump -n -tt -r file.pcap "$1" 2>>log | sed 's/^17000000*\([0-9]\)\..*/\1/' | paste -sd ' ')
        echo "capture filter $1: frames $kept"
    }
    display() {
        kept=$(tshark -r file.pcap -Y "$1" -T fields -e frame.number 2>>log | paste -sd ' ')
        echo "display filter $1: frames $kept"
    }
    capture 'udp or tcp and port 53'
    capture '(udp or tcp) and port 53'
    capture 'udp or (tcp and port 53)'
    display 'udp or tcp and tcp.port == 53'
    display 'udp or (tcp and tcp.port == 53)'
) || { cat log; exit 1; }
expected='capture filter udp or tcp and port 53: frames 1 2
capture filter (udp or tcp) and port 53: frames 1 2
capture filter udp or (tcp and port 53): frames 1 2 3
display filter udp or tcp and tcp.port == 53: frames 1 2 3
display filter udp or (tcp and tcp.port == 53): frames 1 2 3'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
