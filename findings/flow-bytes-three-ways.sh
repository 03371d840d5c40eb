#!/bin/sh
# Three flow meters count three different numbers of bytes for the same five frames.
#
# Guess:   a flow's bytes are those of its IP packets by their own length, as NetFlow and IPFIX have it (octets of
#          layer 3): 29 for a packet of 29 bytes in a frame of 60.
# Package: softflowd 1.1.0-1+b1, pmacct 1.7.7-1+b1, argus-server 2:3.0.8.2-2.2, argus-client 1:3.0.8.2-6.1+b3
#          (Debian 12).
# Happens: pmacct counts 29 a packet, softflowd 46 (its padding, too), argus 60 (the whole frame). For small packets
#          one's rate is twice the other's.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    softflowd=1.1.0-1+b1 pmacct=1.7.7-1+b1 \
    argus-server=2:3.0.8.2-2.2 argus-client=1:3.0.8.2-6.1+b3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"

cd "$tmp"
# Five times a UDP packet of 29 bytes, in frames padded to 60.
python3 - <<'PYTHON'
import struct

packet = bytes.fromhex("4500001d000100004011" "66ce" "0a000001" "0a000002" "03e800350009000078")
frame = bytes.fromhex("0200000000020200000000010800") + packet + bytes(17)
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for second in range(5):
        file.write(struct.pack("<IIII", 1700000000 + second, 0, len(frame), len(frame)) + frame)
PYTHON
cat >pmacctd.conf <<'CONF'
pcap_savefile: file.pcap
plugins: print
print_output: csv
aggregate: src_host, dst_host, src_port, dst_port, proto
CONF

# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    # Nobody listens to what it exports: its own statistics tell.
    echo "softflowd: $(softflowd -d -r file.pcap -n 127.0.0.1:9995 2>&1 |
        sed -n "s/^ *udp (17): *\([0-9]*\) *\([0-9]*\) .*/\2 packets, \1 bytes/p")"
    echo "pmacct: $(pmacctd -f pmacctd.conf 2>log | sed -n "s/^10.0.0.1,.*,\(.*\),\(.*\)/\1 packets, \2 bytes/p")"
    echo "argus: $(argus -X -r file.pcap -w - 2>>log | ra -X -r - -n -c , -s pkts bytes 2>>log |
        sed -n "s/^\([0-9]*\),\([0-9]*\)\$/\1 packets, \2 bytes/p")"') || { cat log; exit 1; }
expected='softflowd: 5 packets, 230 bytes
pmacct: 5 packets, 145 bytes
argus: 5 packets, 300 bytes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
