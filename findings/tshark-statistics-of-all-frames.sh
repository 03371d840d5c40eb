#!/bin/sh
# `tshark -Y FILTER -z STATISTICS` counts all frames of the file.
#
# Guess:   -Y says which frames are looked at, and the statistics are of these.
# Package: tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: conversations, the protocol hierarchy and `io,stat` have the frames that the filter leaves out, too. A
#          filter of their own (`-z conv,udp,FILTER`), or a read filter (`-2 -R FILTER`), counts.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 \
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

ends = bytes.fromhex("020000000002020000000001")
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for at, port in enumerate((5001, 5002, 5002, 5002)):
        packet = bytes.fromhex("4500001d0001000040110000" "0a000001" "0a000002")
        packet += struct.pack(">HHHHB", 1000, port, 9, 0, 0)
        frame = ends + b"\x08\0" + packet + bytes(17)
        file.write(struct.pack("<IIII", 1700000000 + at, 0, len(frame), len(frame)) + frame)
PYTHON
frames() { tshark -r file.pcap "$@" -q -z io,phs 2>err | sed -n 's/^eth *frames:\([0-9]*\) .*/\1/p'; }
talks() { tshark -r file.pcap "$@" 2>err | grep -c '<->'; }
port=udp.port==5001
seen=$(
    echo "-Y: $(tshark -r file.pcap -Y "$port" 2>err | wc -l) frames shown"
    echo "-Y with io,phs: $(frames -Y "$port") frames"
    echo "-2 -R with io,phs: $(frames -2 -R "$port") frames"
    echo "-Y with conv,udp: $(talks -Y "$port" -q -z conv,udp) conversations"
    echo "conv,udp with a filter of its own: $(talks -q -z "conv,udp,$port") conversations"
) || { cat err; exit 1; }
expected='-Y: 1 frames shown
-Y with io,phs: 4 frames
-2 -R with io,phs: 1 frames
-Y with conv,udp: 2 conversations
conv,udp with a filter of its own: 1 conversations'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
