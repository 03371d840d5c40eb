#!/bin/sh
# A packet socket counts what it lost among the packets that came, and begins at 0 after each look.
#
# Guess:   PACKET_STATISTICS has those that were taken and those that were lost, since the socket was opened.
# Package: none, on Linux 6.18 (Python's socket module).
# Happens: tp_packets counts the lost ones, too: of 100 frames of which 99 were lost it says 100 and 99. The next look
#          says 0 and 0, so two readers of one socket each see a part.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/count.py" <<'PYTHON'
import socket
import struct

SOL_PACKET, PACKET_STATISTICS = 263, 6
FRAME = b"\xff" * 6 + b"\x02\0\0\0\0\x01\x88\xb5" + bytes(1000)

def look(name):
    packets, drops = struct.unpack("II", taker.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    print("%s: tp_packets %d, tp_drops %d" % (name, packets, drops))

# Its smallest buffer has room for one such frame.
taker = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
taker.bind(("p2", 0x88B5))
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("p1", 0))
for _ in range(100):
    sender.send(FRAME)
look("after 100 frames")
look("once more")
taker.setblocking(False)
taken = 0
try:
    while taker.recv(2000):
        taken += 1
except BlockingIOError:
    print("taken: %d" % taken)
sender.send(FRAME)
look("after one more frame")
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p2 up
    ip link set p1 up
    python3 "$0/count.py"' "$tmp")
expected='after 100 frames: tp_packets 100, tp_drops 99
once more: tp_packets 0, tp_drops 0
taken: 1
after one more frame: tp_packets 1, tp_drops 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
