#!/bin/sh
# `editcap -i` writes empty files for time without packets, and gives them the name of a later time.
#
# Guess:   files of ten seconds each, of packets at 0 s and 35 s, are two; or four whose names are ten seconds apart.
# Package: wireshark-common 4.0.17-0+deb12u3 (Debian 12).
# Happens: they are four, two of them empty, and all but the first have the time of the second packet in their names.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireshark-common=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
python3 - <<'PYTHON'
import struct

with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for second in (0, 35):
        frame = bytes.fromhex("020000000002" "020000000001" "88b5") + bytes(46)
        file.write(struct.pack("<IIII", 1700000000 + second, 0, len(frame), len(frame)) + frame)
PYTHON
TZ=UTC editcap -i 10 file.pcap part.pcap 2>err || { cat err; exit 1; }
seen=$(for file in part*; do echo "$file: $(capinfos -Tmrc "$file" | cut -d , -f 2) packets"; done)
expected='part_00000_20231114221320.pcap: 1 packets
part_00001_20231114221355.pcap: 0 packets
part_00002_20231114221355.pcap: 0 packets
part_00003_20231114221355.pcap: 1 packets'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
