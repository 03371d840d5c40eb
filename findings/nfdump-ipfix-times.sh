#!/bin/sh
# nfdump puts flows whose times are in another element than milliseconds into January 1970.
#
# Guess:   flowStartSeconds, flowStartMicroseconds and flowStartNanoseconds say when a flow began, as
#          flowStartMilliseconds does.
# Package: nfdump 1.7.1-2+deb12u1, tshark 4.0.17-0+deb12u3 (Debian 12).
# Happens: nfcapd takes the flow, and knows only milliseconds: with the others (RFC 7011, sections 6.1.7 to 6.1.10; the
#          last two are NTP times) it begins and ends at 0. tshark shows the time of each, the NTP ones a nanosecond
#          early.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nfdump=1.7.1-2+deb12u1 wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 \
    libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 iproute2=6.1.0-3 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
export HOME="$tmp" TZ=UTC
cat >send.py <<'PYTHON'
import socket
import sys
import struct

TIME = 1700000000
FLOW = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (2, 8), (1, 8)]
KEYS = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + struct.pack(">HHBQQ", 1000, 2000, 17, 5, 500)

def message(sequence, fields, record):
    """One template, and one record of it: enterprise numbers are the third of a field."""
    numbers = b"".join(struct.pack(">HH" if len(field) == 2 else ">HHI", *field) for field in fields)
    template = struct.pack(">HHHH", 2, 8 + len(numbers), 256, len(fields)) + numbers
    data = struct.pack(">HH", 256, 4 + len(record)) + record
    sets = template + data
    return struct.pack(">HHIII", 10, 16 + len(sets), TIME + 5, sequence, 1) + sets

def ntp(time):
    return struct.pack(">II", time + 2208988800, 1 << 30)

CASES = [
    (152, 8, struct.pack(">QQ", TIME * 1000 + 250, TIME * 1000 + 250)),
    (150, 4, struct.pack(">II", TIME, TIME)),
    (154, 8, ntp(TIME) * 2),
    (156, 8, ntp(TIME) * 2),
]
number, length, times = CASES[int(sys.argv[1])]
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagram = message(0, FLOW + [(number, length), (number + 1, length)], KEYS + times)
sender.sendto(datagram, ("127.0.0.1", 4739))
with open("file.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    packet = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(datagram), 1, 0, 64, 17, 0) + bytes([127, 0, 0, 1] * 2)
    packet += struct.pack(">HHHH", 4739, 4739, 8 + len(datagram), 0) + datagram
    frame = bytes(12) + b"\x08\x00" + packet
    file.write(struct.pack("<IIII", TIME, 0, len(frame), len(frame)) + frame)
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    case=0
    for unit in milliseconds seconds microseconds nanoseconds; do
        mkdir "$unit"
        nfcapd -w "$unit" -p 4739 -b 127.0.0.1 -t 3600 >log 2>&1 &
        # The socket is there, and bound.
        until grep -q ":1283 " /proc/net/udp; do sleep 0.1; done
        python3 send.py "$case"
        until grep -q "New ipfix exporter" log; do sleep 0.1; done
        kill "$!"
        wait "$!" || :
        first=$(nfdump -q -r "$unit"/nfcapd.2* -o json | sed -n "s/.*\"first\" : \"\(.*\)\",/\1/p")
        shown=$(tshark -r file.pcap -V 2>>log | sed -n "s/ *StartTime: //p")
        echo "$unit: nfdump $first, tshark $shown"
        case=$((case + 1))
    done') || { cat log; exit 1; }
expected='milliseconds: nfdump 2023-11-14T22:13:20.250, tshark Nov 14, 2023 22:13:20.250000000 UTC
seconds: nfdump 1970-01-01T00:00:00.000, tshark Nov 14, 2023 22:13:20.000000000 UTC
microseconds: nfdump 1970-01-01T00:00:00.000, tshark Nov 14, 2023 22:13:20.249999999 UTC
nanoseconds: nfdump 1970-01-01T00:00:00.000, tshark Nov 14, 2023 22:13:20.249999999 UTC'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
