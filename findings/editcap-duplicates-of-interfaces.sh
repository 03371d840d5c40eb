#!/bin/sh
# `editcap -d` takes frames of different interfaces, and of different seconds, for duplicates.
#
# Guess:   of a frame that two interfaces saw, or that was sent again later, both are kept: a duplicate is the same
#          packet of the same interface and time.
# Package: wireshark-common, tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: the bytes alone are compared, with those of the four frames before: of a frame that came in at one interface
#          and went out at another one only the first is left. `-w` looks at the time, but not at the interface either.
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
# The same frame at interface 0, a millisecond later at interface 1, and three seconds later at interface 0.
python3 - <<'PYTHON'
import struct

FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(46)

def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

with open("file.pcapng", "wb") as file:
    file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    for name in (b"eth0", b"eth1"):
        file.write(block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HH", 2, 4) + name + bytes(4)))
    for interface, time in ((0, 0), (1, 1000), (0, 3000000)):
        file.write(block(6, struct.pack("<IIIII", interface, 0, time, 60, 60) + FRAME))
PYTHON
show() {
    title=$1
    shift
    editcap "$@" file.pcapng out.pcapng 2>>err
    echo "$title: $(tshark -r out.pcapng -T fields -E separator=/s -e frame.interface_name -e frame.time_epoch 2>>err |
        sed 's/000000$//' | paste -sd ,)"
}
seen=$(
    show without
    show -d -d
    show '-w 0.5' -w 0.5
) || { cat err; exit 1; }
expected='without: eth0 0.000,eth1 0.001,eth0 3.000
-d: eth0 0.000
-w 0.5: eth0 0.000,eth0 3.000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
