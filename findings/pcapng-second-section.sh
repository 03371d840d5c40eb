#!/bin/sh
# tshark and editcap give the packets of a second pcapng section to an interface of the first.
#
# Guess:   pcapng files may be laid one behind the other (each begins a section of its own); the packets keep their
#          interfaces.
# Package: tshark and wireshark-common 4.0.17-0+deb12u3 (Debian 12).
# Happens: an interface's number counts from 0 in each section, but is looked up from the start of the file: the packet of
#          eth1 is shown as of eth0, and editcap's copy says so for good. capinfos counts eth1 with no packet.
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

write("in.pcapng", section(b"eth0") + packet(1) + packet(2) + section(b"eth1") + packet(3))
PYTHON
show() {
    echo "$1: $(tshark -r "$2" -T fields -E separator=/s -e frame.number -e frame.interface_name 2>err | paste -sd ,)"
}
seen=$(
    show tshark in.pcapng
    editcap in.pcapng copy.pcapng
    show 'copy of editcap' copy.pcapng
    # It tells of all interfaces once more for each section.
    echo "capinfos: $(capinfos in.pcapng 2>>err | sed -n 's/^ *Name = //p; s/^ *Number of packets = //p' |
        tail -n 4 | paste -sd ' ')"
) || { cat err; exit 1; }
expected='tshark: 1 eth0,2 eth0,3 eth0
copy of editcap: 1 eth0,2 eth0,3 eth0
capinfos: eth0 3 eth1 0'
echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
