#!/bin/sh
# `vlan or port 53` is another capture filter than `port 53 or vlan`.
#
# Guess:   the order of the sides of `or` does not matter.
# Package: tcpdump 4.99.3-1, libpcap 1.10.3-1 (Debian 12).
# Happens: `vlan` moves what stands behind it four bytes to the right, whether the frame has a tag or not: after it
#          `port 53` finds nothing that has no tag, also in parentheses of their own. Before it, it finds what has
#          none. `port 53 and vlan` is an error, "expression rejects all packets".
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

packet = bytes.fromhex("4500001d0001000040110000" "0a000001" "0a000002" "03e800350009000078")
ends = bytes.fromhex("020000000002020000000001")
untagged = ends + b"\x08\0" + packet + bytes(17)
tagged = ends + b"\x81\0\0\x0a\x08\0" + packet + bytes(17)
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for frame in (untagged, tagged):
        file.write(struct.pack("<IIII", 1700000000, 0, len(frame), len(frame)) + frame)
PYTHON
seen=$(for filter in 'port 53 or vlan' 'vlan or port 53' '(vlan) or (port 53)' 'vlan and port 53' 'port 53 and vlan'; do
    found=$(tcpdump -n -e -r file.pcap "$filter" 2>said |
        sed 's/.*vlan 10.*/tagged/; t; s/.*/untagged/' | paste -sd ' ')
    echo "$filter: ${found:-$(sed -n 's/.*expression/expression/p' said)}"
done)
expected='port 53 or vlan: untagged tagged
vlan or port 53: tagged
(vlan) or (port 53): tagged
vlan and port 53: tagged
port 53 and vlan: expression rejects all packets'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
