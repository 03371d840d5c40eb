#!/bin/sh
# tcpslice that merges captures of two nodes leaves out what both saw at the same time.
#
# Guess:   like mergecap it keeps all packets of both files, in the order of their times.
# Package: tcpslice 1.5-1, tcpdump 4.99.3-1, wireshark-common 4.0.17-0+deb12u3 (Debian 12).
# Happens: a packet of the second file that has the time and the bytes of one of the first is taken for the same and
#          left out, without a word; equal packets within one file stay. With -D all are kept.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    tcpslice=1.5-1 tcpdump=4.99.3-1 wireshark-common=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 \
    libwsutil14=4.0.17-0+deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
python3 - <<'PYTHON'
import struct

def write(path, times):
    frame = bytes.fromhex("02000000000202000000000188b5") + bytes(500)
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for time in times:
            file.write(struct.pack("<IIII", 1700000000 + time, 5, len(frame), len(frame)) + frame)

write("left.pcap", range(100))
write("right.pcap", range(0, 200, 2))
write("same.pcap", [time // 2 for time in range(200)])
PYTHON
count() { tcpdump -r "$1" --count 2>/dev/null | sed 's/ packet.*//'; }
seen=$(
    echo "left: $(count left.pcap), right: $(count right.pcap)"
    mergecap -F pcap -w out.pcap left.pcap right.pcap
    echo "mergecap left right: $(count out.pcap)"
    tcpslice -w out.pcap left.pcap right.pcap
    echo "tcpslice left right: $(count out.pcap)"
    tcpslice -D -w out.pcap left.pcap right.pcap
    echo "tcpslice -D left right: $(count out.pcap)"
    tcpslice -w out.pcap same.pcap
    echo "tcpslice of each packet twice in one file: $(count out.pcap)"
)
expected='left: 100, right: 100
mergecap left right: 200
tcpslice left right: 150
tcpslice -D left right: 200
tcpslice of each packet twice in one file: 200'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
