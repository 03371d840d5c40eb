#!/bin/sh
# mergecap makes one interface of two that have the same name.
#
# Guess:   captures of r1's eth0 and r2's eth0 have two interfaces in the merged file.
# Package: wireshark-common 4.0.17-0+deb12u3 (Debian 12).
# Happens: they become one where they are described alike: nothing tells any more which node saw a packet. `-I none`
#          keeps them apart, and so do names of their own.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 \
    libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
export HOME="$tmp"
python3 - <<'PYTHON'
import struct

def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

def section(name):
    option = struct.pack("<HH", 2, len(name)) + name + bytes(-len(name) % 4) + bytes(4)
    header = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    return header + block(1, struct.pack("<HHI", 1, 0, 0) + option)

def packet(seconds):
    frame = bytes.fromhex("02000000000202000000000188b5") + bytes(46)
    time = seconds * 1000000
    return block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame)) + frame)

def write(path, data):
    with open(path, "wb") as file:
        file.write(data)

write("r1.pcapng", section(b"eth0") + packet(1) + packet(3))
write("r2.pcapng", section(b"eth0") + packet(2))
write("other.pcapng", section(b"r2:eth0") + packet(2))
PYTHON
show() {
    echo "$1: $(tshark -r "$2" -T fields -E separator=/s -e frame.interface_id -e frame.interface_name 2>>err |
        paste -sd ,)"
}
seen=$(
    mergecap -w merged.pcapng r1.pcapng r2.pcapng
    show 'same names' merged.pcapng
    mergecap -I none -w merged.pcapng r1.pcapng r2.pcapng
    show '-I none' merged.pcapng
    mergecap -w merged.pcapng r1.pcapng other.pcapng
    show 'other names' merged.pcapng
) || { cat err; exit 1; }
expected='same names: 0 eth0,0 eth0,0 eth0
-I none: 0 eth0,1 eth0,0 eth0
other names: 0 eth0,1 r2:eth0,0 eth0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
