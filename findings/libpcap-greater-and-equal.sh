#!/bin/sh
# The capture filters `greater 100` and `less 100` both keep a frame of 100 bytes.
#
# Guess:   they are opposites: more than 100 bytes, and less.
# Package: tcpdump 4.99.3-1, libpcap 1.10.3-1 (Debian 12).
# Happens: they are `len >= 100` and `len <= 100`: two counts with them count a frame of 100 twice. `len > 100` keeps
#          longer ones alone.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 >"$tmp/apt" 2>&1 ||
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
    for length in (99, 100, 101):
        frame = bytes.fromhex("02000000000202000000000188b5") + bytes(length - 14)
        file.write(struct.pack("<IIII", 1700000000, 0, length, length) + frame)
PYTHON
seen=$(for filter in 'greater 100' 'less 100' 'len > 100'; do
    kept=$(tcpdump -n -e -r file.pcap "$filter" 2>said | sed -n 's/.*, length \([0-9]*\): .*/\1/p' | paste -sd ' ')
    echo "$filter: $kept"
done)
expected='greater 100: 100 101
less 100: 99 100
len > 100: 101'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
