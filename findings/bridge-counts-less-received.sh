#!/bin/sh
# A bridge counts the bytes that it receives without the Ethernet header, and those that it sends with it.
#
# Guess:   as at other interfaces: a frame of 100 bytes counts as 100, received or sent.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: received by the bridge's own host it counts as 86, sent as 100. The port counts 100 both ways, and so does a
#          macvlan. What a node behind a bridge receives seems less than what its peer sends.
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
alone 'ip link add name p1 type veth; ip link add link p1 type macvlan' 2>/dev/null || skip "no macvlan in this kernel"

# Sends frames of 100 bytes to a MAC address at an interface.
cat >"$tmp/send.py" <<'PYTHON'
import socket
import sys

frame = bytes.fromhex(sys.argv[2].replace(":", "")) + bytes.fromhex("02000000000988b5") + bytes(86)
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind((sys.argv[1], 0))
for _ in range(10):
    sender.send(frame)
PYTHON

# Nothing else sends: IPv6 is off, and the bridge asks for no groups.
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    count() { ip -s link show "$1" | sed -n "/$2:/{n;p}" | { read -r bytes packets rest; echo "$packets $bytes"; }; }
    until_ten() { until [ "$(count "$1" RX | cut -d " " -f 1)" -eq 10 ]; do :; done; }
    show() {
        for side in RX TX; do
            set -- "$1" $(count "$1" "$side")
            echo "$1 $side: $2 frames, $3 bytes"
        done
    }
    ip link add name p1 type veth peer name p2
    ip link add name br0 address 02:00:00:00:00:01 type bridge mcast_snooping 0
    ip link set p1 master br0
    for name in p1 p2 br0; do ip link set "$name" up; done
    until bridge link show dev p1 | grep -q "state forwarding"; do :; done
    python3 "$0" p2 02:00:00:00:00:01
    until_ten br0
    python3 "$0" br0 02:00:00:00:00:09
    until_ten p2
    show p1
    show br0
    ip link add name p3 type veth peer name p4
    ip link add link p3 name mv0 address 02:00:00:00:00:02 type macvlan mode bridge
    for name in p3 p4 mv0; do ip link set "$name" up; done
    python3 "$0" p4 02:00:00:00:00:02
    until_ten mv0
    python3 "$0" mv0 02:00:00:00:00:09
    until_ten p4
    show mv0' "$tmp/send.py")
expected='p1 RX: 10 frames, 1000 bytes
p1 TX: 10 frames, 1000 bytes
br0 RX: 10 frames, 860 bytes
br0 TX: 10 frames, 1000 bytes
mv0 RX: 10 frames, 1000 bytes
mv0 TX: 10 frames, 1000 bytes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
