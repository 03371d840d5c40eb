#!/bin/sh
# Of samples of one packet in a hundred nfdump counts all hundred, and pmacct the one.
#
# Guess:   a collector multiplies by the sampling rate that the sender gives, as the packets and bytes that it shows
#          are those of the network; or none does.
# Package: nfdump, nfdump-sflow 1.7.1-2+deb12u1, pmacct 1.7.7-1+b1 (Debian 12).
# Happens: five sFlow samples are 500 packets for sfcapd and 5 for sfacctd, and flows of NetFlow 5 whose header says 1
#          of 100 have 2500 packets for nfcapd and 25 for nfacctd. pmacct multiplies with `sfacctd_renormalize: true`,
#          `nfacctd_renormalize: true`.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nfdump=1.7.1-2+deb12u1 nfdump-sflow=1.7.1-2+deb12u1 pmacct=1.7.7-1+b1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/send.py" <<'PYTHON'
import socket
import struct
import sys

kind, port = sys.argv[1], int(sys.argv[2])
packet = bytes.fromhex("4500008000010000401100000a0000010a00000203e80035006c0000") + bytes(100)
frame = bytes.fromhex("0200000000020200000000010800") + packet

def sflow(number):
    record = struct.pack(">IIIIII", 1, 16 + 144, 1, len(frame) + 4, 4, len(frame)) + frame + bytes(2)
    sample = struct.pack(">IIIIIIII", number, 1, 100, number * 100, 0, 1, 2, 1) + record
    head = struct.pack(">II4sIIII", 5, 1, bytes([127, 0, 0, 1]), 0, number, 1000 * number, 1)
    return head + struct.pack(">II", 1, len(sample)) + sample

def netflow(number):
    head = struct.pack(">HHIIIIBBH", 5, 1, 100000, 1700000000, 0, number, 0, 0, 1 << 14 | 100)
    counts = struct.pack(">HHIIII", 1, 2, 5, 1000, 90000, 95000)
    tail = struct.pack(">HHBBBBHHBBH", 1000, 53, 0, 0, 17, 0, 0, 0, 24, 24, 0)
    return head + packet[12:20] + bytes(4) + counts + tail

sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(1, 6):
    sender.sendto({"sflow": sflow, "netflow": netflow}[kind](number), ("127.0.0.1", port))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    # What the kernel says of a UDP port: that somebody waits there, and that nothing waits to be read.
    listens() { until grep -qi ":$(printf %04X "$1") " /proc/net/udp /proc/net/udp6; do sleep 0.1; done; }
    nfdump_counts() {
        mkdir flows
        "$1" -l flows -p "$2" -b 127.0.0.1 >log 2>&1 &
        listens "$2"
        python3 send.py "$3" "$2"
        sleep 1
        kill "$!"
        wait "$!" || :
        echo "$1: $(nfdump -R flows -q -o "fmt:%pkt %byt" | awk "{ p += \$1; b += \$2 } END { print p, b }")"
        rm -r flows
    }
    pmacct_counts() {
        printf "%s\n" "plugins: print" "aggregate: src_host" "print_output: csv" "print_refresh_time: 2" \
            "$1_ip: 127.0.0.1" "$1_port: $2" "$1_renormalize: $4" >conf
        "$1" -f conf >out 2>log &
        listens "$2"
        python3 send.py "$3" "$2"
        until grep -q 10.0.0.1 out; do sleep 0.1; done
        # It waits for its plugin for long if it may.
        kill -KILL "$!"
        wait "$!" 2>>log || :
        echo "$1, renormalize $4: $(grep 10.0.0.1 out | awk -F, "{ p += \$2; b += \$3 } END { print p, b }")"
    }
    nfdump_counts sfcapd 6343 sflow
    pmacct_counts sfacctd 6344 sflow false
    pmacct_counts sfacctd 6345 sflow true
    nfdump_counts nfcapd 9995 netflow
    pmacct_counts nfacctd 9996 netflow false
    pmacct_counts nfacctd 9997 netflow true' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='sfcapd: 500 73000
sfacctd, renormalize false: 5 730
sfacctd, renormalize true: 500 73000
nfcapd: 2500 500000
nfacctd, renormalize false: 25 5000
nfacctd, renormalize true: 2500 500000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
