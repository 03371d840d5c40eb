#!/bin/sh
# A multicast group that was given to a bridge's port by hand is flooded to all ports until there is a querier.
#
# Guess:   after `bridge mdb add dev br0 port q2 grp 239.1.1.1 permanent` packets to that group leave at q2 alone.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: they leave at all ports, though `bridge mdb` lists the entry: without a querier in the network the bridge
#          does not use its table. Once it asks itself (`mcast_querier 1`), and the time for answers (10 s by
#          default) is over, q2 alone gets them.
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
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name br0 type bridge mcast_snooping 1 mcast_querier 1' 2>/dev/null ||
    skip "no bridge with multicast snooping in this kernel"

# A packet to 239.1.1.1 into p1, then a frame to all: who has this one without the first did not get it.
cat >"$tmp/send.py" <<'PYTHON'
import socket

MARK = bytes.fromhex("ffffffffffff" "020000000001" "88b5") + bytes(46)
packet = bytes.fromhex("4500001c000100000811b8cd" "0a000001" "ef010101" "0009000900080000")
group = bytes.fromhex("01005e010101" "020000000001" "0800") + packet

def opened(name, protocol):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    end.bind((name, protocol))
    return end

ends = [(name, opened(name, 3)) for name in ("p2", "p3")]
sender = opened("p1", 0)
sender.send(group)
sender.send(MARK)
got = []
for name, end in ends:
    while (frame := end.recv(2048)) != MARK:
        if frame == group:
            got.append(name)
print(" ".join(got))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name br0 type bridge mcast_query_response_interval 100
    for number in 1 2 3; do
        ip link add name "p$number" type veth peer name "q$number"
        ip link set "q$number" master br0
        ip link set "q$number" up
        ip link set "p$number" up
    done
    ip link set br0 up
    bridge mdb add dev br0 port q2 grp 239.1.1.1 permanent
    bridge mdb show | sed -n "s/.*\(port q2 grp 239.1.1.1 permanent\).*/\1/p"
    echo "no querier: $(python3 "$0")"
    ip link set br0 type bridge mcast_querier 1
    until [ "$(python3 "$0")" = p2 ]; do :; done
    echo "a querier: $(python3 "$0")"' "$tmp/send.py")
expected='port q2 grp 239.1.1.1 permanent
no querier: p2 p3
a querier: p2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
