#!/bin/sh
# libpcap refuses the packets of a pcapng file whose interfaces have different snapshot lengths.
#
# Guess:   pcapng describes each interface on its own, so a file of two Ethernet interfaces reads like one of one.
# Package: tcpdump 4.99.3-1 with libpcap 1.10.3-1 (Debian 12).
# Happens: a file with two interfaces captured with 262144 and 65535 bytes ends at the second interface's description:
#          tcpdump prints the packets before it and exits with an error. With equal lengths both packets are read. So a
#          program that writes several interfaces into one file has to give all the same length.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

command -v python3 >/dev/null || skip "no python3"
mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/bin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

cd "$tmp"
python3 - <<'PYTHON'
import struct

def block(kind, body):
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length

def interface(snapshot):
    return block(1, struct.pack("<HHI", 1, 0, snapshot))

def packet(interface):
    frame = bytes.fromhex("020000000002" "020000000001" "88b5") + bytes(46)
    return block(6, struct.pack("<IIIII", interface, 0, 0, len(frame), len(frame)) + frame)

section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
for name, second in ("equal", 262144), ("unequal", 65535):
    with open(name, "wb") as file:
        file.write(section + interface(262144) + packet(0) + interface(second) + packet(1))
PYTHON

# As root, tcpdump would become a user that this machine may lack.
read_file() {
    code=0
    tcpdump -n -q -Z root -r "$1" >out 2>err || code=$?
    echo "$1: $(wc -l <out) of 2 packets, exit code $code"
    grep -v '^reading from' err || :
}
seen=$(read_file equal; read_file unequal)
expected='equal: 2 of 2 packets, exit code 0
unequal: 1 of 2 packets, exit code 1
tcpdump: pcap_loop: an interface has a snapshot length 65535 different from the snapshot length of the first interface'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
