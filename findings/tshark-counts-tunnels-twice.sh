#!/bin/sh
# `tshark -z conv,ip` counts a frame of a tunnel in two conversations, with all its bytes in each.
#
# Guess:   a frame is in one conversation, or the inner one has the inner packet's bytes: all conversations together
#          have no more bytes than the file.
# Package: tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: each IP header of a frame makes it a part of one more conversation: one frame of 66 bytes gives two of 66. An
#          IP header within an ICMP error does not.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 \
    libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
export HOME="$tmp"
# A UDP packet of four bytes within IP within IP, and the same packet within an ICMP error.
python3 - <<'PYTHON'
import struct

def packet(source, destination, protocol, body):
    def header(sum):
        return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, sum, source, destination)
    total = sum(struct.unpack("!10H", header(0)))
    return header(~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + body

near, far, left, right = b"\x0a\0\0\1", b"\x0a\0\0\2", b"\xc0\xa8\0\1", b"\xc0\xa8\0\2"
inner = packet(left, right, 17, struct.pack("!HHHH", 1000, 9, 12, 0) + bytes(4))
for name, outer in (
    ("tunnel", packet(near, far, 4, inner)),
    ("error", packet(far, left, 1, struct.pack("!BBHI", 3, 3, 0, 0) + inner)),
):
    frame = bytes.fromhex("0200000000020200000000010800") + outer
    with open(name + ".pcap", "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        file.write(struct.pack("<IIII", 1700000000, 0, len(frame), len(frame)) + frame)
PYTHON
seen=$(
    for name in tunnel error; do
        tshark -q -r "$name.pcap" -z conv,ip 2>>err |
            sed -n "s/ *[0-9.]* *[0-9.]*\$//
                s/^\([0-9.]*\) *<-> \([0-9.]*\) .* \([0-9]* [0-9]* bytes\)\$/$name: \1, \2: \3/p"
    done
) || { cat err; exit 1; }
expected='tunnel: 10.0.0.1, 10.0.0.2: 1 66 bytes
tunnel: 192.168.0.1, 192.168.0.2: 1 66 bytes
error: 10.0.0.2, 192.168.0.1: 1 74 bytes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
