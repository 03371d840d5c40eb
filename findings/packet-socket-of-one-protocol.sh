#!/bin/sh
# A packet socket of one protocol gets less than what one of all protocols gets of it.
#
# Guess:   a socket bound to an EtherType gets those frames of ETH_P_ALL that have this type.
# Package: iproute2 6.1.0-3 (Debian 12), Python's socket, on Linux 6.18.
# Happens: it gets no outgoing frames, and at a bridge's port nothing at all, not even frames for the bridge's own
#          host. A program that asks for its own protocol alone sees half of it, or nothing.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'ip link add name p1 type bridge' 2>/dev/null || skip "no bridge in this kernel"

# Sends a frame of type 0x88b5 each way, and one of 0x88b6 each way when both were seen, so that all is delivered that
# will be. Then tells what came.
cat >"$tmp/look.py" <<'PYTHON'
import socket

ALL = 3
KINDS = {socket.PACKET_OUTGOING: "outgoing", socket.PACKET_BROADCAST: "incoming"}

def opened(name, protocol):
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    packets.bind((name, protocol))
    return packets

def take(packets):
    frame, address = packets.recvfrom(2048)
    return frame[12:14], KINDS[address[2]]

every, one = opened("p1", ALL), opened("p1", 0x88B5)
senders = opened("p1", 0), opened("p2", 0)
seen = []
for kind in (b"\x88\xb5", b"\x88\xb6"):
    for sender in senders:
        sender.send(b"\xff" * 6 + b"\x02\0\0\0\0\x09" + kind + bytes(46))
    while sum(name == kind for name, _ in seen) < 2:
        seen.append(take(every))
got = []
one.setblocking(False)
try:
    while True:
        got.append(take(one)[1])
except BlockingIOError:
    pass
print("all: %s; one: %s" % (
    ", ".join(sorted(way for kind, way in seen if kind == b"\x88\xb5")), ", ".join(got) or "nothing"))
PYTHON

# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    echo "interface: $(python3 "$0")"
    ip link add name br0 type bridge mcast_snooping 0
    ip link set br0 up
    ip link set p1 master br0
    echo "bridge port: $(python3 "$0")"' "$tmp/look.py")
expected='interface: all: incoming, outgoing; one: incoming
bridge port: all: incoming, outgoing; one: nothing'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
