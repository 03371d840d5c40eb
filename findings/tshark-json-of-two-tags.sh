#!/bin/sh
# tshark's JSON of a frame with two VLAN tags has one of them for a reader of JSON.
#
# Guess:   a layer that a frame has twice is a list, or has another name the second time.
# Package: tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: the object has two members of the name `vlan` (RFC 8259, section 4: names should be unique), and Python keeps
#          the last, the inner tag. With --no-duplicate-keys it is a list of two, but an object where there is one.
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
seen=$(
    python3 - <<'PYTHON'
import struct

DATA = bytes.fromhex("88b5") + bytes(42)
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for tags in ("8100006481000005", "81000064"):
        frame = bytes.fromhex("020000000002020000000001" + tags) + DATA
        file.write(struct.pack("<IIII", 1700000000, 0, len(frame), len(frame)) + frame)
PYTHON
    cat >read.py <<'PYTHON'
import json
import sys

for packet in json.load(sys.stdin):
    tags = packet["_source"]["layers"]["vlan"]
    ids = [tag["vlan.id"] for tag in tags] if isinstance(tags, list) else tags["vlan.id"]
    print("%s: %s" % (sys.argv[1], ids))
PYTHON
    tshark -r file.pcap -T json 2>log | python3 read.py "-T json"
    tshark -r file.pcap -T json --no-duplicate-keys 2>log | python3 read.py "--no-duplicate-keys"
) || { cat log; exit 1; }
expected="-T json: 5
-T json: 100
--no-duplicate-keys: ['100', '5']
--no-duplicate-keys: 100"

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
