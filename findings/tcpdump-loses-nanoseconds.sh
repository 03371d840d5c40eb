#!/bin/sh
# tcpdump that copies packets from one file into another rounds nanoseconds down to microseconds.
#
# Guess:   `tcpdump -r IN -w OUT FILTER` writes the packets that match as they are in IN.
# Package: tcpdump 4.99.3-1 with libpcap 1.10.3-1 (Debian 12).
# Happens: OUT is a file of microseconds, without a word: 123456789 ns become 123456 us. Only with
#          --time-stamp-precision=nano is the copy exact. Delays measured in the copy are off by up to a microsecond.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/bin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

cd "$tmp"
# A pcap file of nanoseconds (magic 0xa1b23c4d), little-endian, with one Ethernet frame of 60 bytes at 123456789 ns.
{
    printf '\115\074\262\241\002\000\004\000\000\000\000\000\000\000\000\000\000\000\004\000\001\000\000\000'
    printf '\000\000\000\000\025\315\133\007\074\000\000\000\074\000\000\000'
    printf '\002\000\000\000\000\002\002\000\000\000\000\001\210\265'
    head -c 46 /dev/zero
} >in.pcap

# The magic number, and the fraction of a second of the first packet.
show() {
    echo "$1: $(od -An -v --endian=little -tx4 -N4 "$2" | tr -d ' ') $(od -An --endian=little -tu4 -j28 -N4 "$2" | tr -d ' ')"
}
# As root, tcpdump would become a user that this machine may lack.
tcpdump -Z root -r in.pcap -w out.pcap 2>err || { cat err; exit 1; }
tcpdump -Z root --time-stamp-precision=nano -r in.pcap -w nano.pcap 2>/dev/null
seen=$(grep -v '^reading from' err || :; show in in.pcap; show out out.pcap; show '--time-stamp-precision=nano' nano.pcap)
expected='in: a1b23c4d 123456789
out: a1b2c3d4 123456
--time-stamp-precision=nano: a1b23c4d 123456789'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
