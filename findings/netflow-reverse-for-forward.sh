#!/bin/sh
# Python's netflow has the octets of a flow's way back in the place of those of its way there.
#
# Guess:   of a flow of both directions octetDeltaCount is the forward one; the reverse one has another name, or is left
#          out.
# Package: netflow 0.12.2 (PyPI), nfdump 1.7.1-2+deb12u1 (Debian 12).
# Happens: the enterprise number (29305: reverse, RFC 5103; RFC 7011, section 3.2) is not looked at: both elements get
#          one name, and one of them stays, here the octets of the way back and the packets of the way there. nfdump has
#          all four.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nfdump=1.7.1-2+deb12u1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps netflow==0.12.2 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cd "$tmp"
export HOME="$tmp" TZ=UTC
cat >message.py <<'PYTHON'
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

# Packets and octets of the way back.
REVERSE = [(0x8002, 8, 29305), (0x8001, 8, 29305), (152, 8), (153, 8)]
DATAGRAM = message(0, FLOW + REVERSE, KEYS + struct.pack(">QQQQ", 7, 700, TIME * 1000, TIME * 1000))
PYTHON
cat >read.py <<'PYTHON'
import netflow
from message import DATAGRAM

flow = netflow.parse_packet(DATAGRAM, {"netflow": {}, "ipfix": {}}).flows[0].data
counted = sorted((name, value) for name, value in flow.items() if "Count" in name)
print("netflow:", ", ".join("%s %d" % pair for pair in counted))
PYTHON
cat >send.py <<'PYTHON'
import socket

from message import DATAGRAM

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(DATAGRAM, ("127.0.0.1", 4739))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    venv/bin/python read.py
    mkdir flows
    nfcapd -w flows -p 4739 -b 127.0.0.1 -t 3600 >log 2>&1 &
    until grep -q ":1283 " /proc/net/udp; do sleep 0.1; done
    python3 send.py
    until grep -q "New ipfix exporter" log; do sleep 0.1; done
    kill "$!"
    wait "$!" || :
    echo "nfdump:" $(nfdump -q -r flows/nfcapd.2* -o json |
        sed -n "s/.*\"\(\(in\|out\)_[a-z]*\)\" : \([0-9]*\),/\1 \3/p")') || { cat log; exit 1; }
expected='netflow: octetDeltaCount 700, packetDeltaCount 5
nfdump: in_packets 5 in_bytes 500 out_packets 7 out_bytes 700'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
