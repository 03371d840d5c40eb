#!/bin/sh
# nfdump's JSON has local times, without a zone.
#
# Guess:   times in JSON are in UTC, or with their zone, as ISO 8601 has it.
# Package: nfdump 1.7.1-2+deb12u1 (Debian 12).
# Happens: `"first" : "2023-11-15T07:13:20.000"` nine hours east of Greenwich for what is `2023-11-14T22:13:20.000`
#          there, and nothing to tell which it is: one file of flows, written as JSON on two machines, has times that
#          are hours apart.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nfdump=1.7.1-2+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
# Ten packets of one flow, a second apart.
python3 - <<'PYTHON'
import struct

with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for second in range(10):
        packet = bytes.fromhex("450000290001000040110000" "0a000001" "0a000002")
        packet += struct.pack("!HHHH", 1000, 7000, 21, 0) + bytes(13)
        total = sum(struct.unpack("!10H", packet[:20]))
        packet = packet[:10] + struct.pack("!H", ~((total >> 16) + (total & 0xFFFF)) & 0xFFFF) + packet[12:]
        frame = bytes.fromhex("020000000002" "020000000001" "0800") + packet + bytes(5)
        file.write(struct.pack("<IIII", 1700000000 + second, 0, len(frame), len(frame)) + frame)
PYTHON
mkdir flows
nfpcapd -r file.pcap -w flows >log 2>&1 || { cat log; exit 1; }
seen=$(for zone in UTC0 JST-9 EST5; do
    echo "$zone: $(TZ=$zone nfdump -r "$(echo flows/nfcapd.*)" -o json 2>>log |
        sed -n 's/^.*"first" : "\(.*\)".*/\1/p' | sed -n 1p)"
done)
expected='UTC0: 2023-11-14T22:13:20.000
JST-9: 2023-11-15T07:13:20.000
EST5: 2023-11-14T17:13:20.000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
