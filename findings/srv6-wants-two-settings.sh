#!/bin/sh
# A node follows a segment routing header if net.ipv6.conf.all.seg6_enabled and that of the interface are both 1.
#
# Guess:   the setting of the interface is enough, as `forwarding` of one interface is in IPv4, or that of `all` is,
#          as in IPv6.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: with one of them packets that have segments left are dropped without a word, no ICMPv6 error comes. With
#          both the node sends them on to the next segment.
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
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
[ -e /proc/sys/net/ipv6/conf/all/seg6_enabled ] || skip "no IPv6 segment routing in this kernel"

# By way of the node 2001:db8:1::2 to 2001:db8:9::9, also its own, where no port is open: that is told if it arrives.
cat >"$tmp/probe.py" <<'PYTHON'
import socket

way, target = (socket.inet_pton(socket.AF_INET6, address) for address in ("2001:db8:1::2", "2001:db8:9::9"))
header = bytes([0, 4, 4, 1, 1, 0, 0, 0]) + target + way
answers = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
answers.settimeout(1)
probe = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RTHDR, header)
probe.sendto(b"probe", ("2001:db8:9::9", 33434))
try:
    while True:
        answer, sender = answers.recvfrom(2048)
        if answer[0] < 128:
            print("port unreachable from %s" % sender[0] if answer[:2] == b"\1\4" else answer[:2])
            break
except socket.timeout:
    print("no answer")
PYTHON
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    unshare --net sh -c "echo there; exec sleep 300" >ready &
    read -r there <ready
    node=$!
    far() { nsenter --target "$node" --net "$@"; }
    ip link add name p1 type veth peer name p2 netns "$node"
    ip link set p1 up
    ip addr add 2001:db8:1::1/64 dev p1 nodad
    far ip link set lo up
    far ip link set p2 up
    far ip addr add 2001:db8:1::2/64 dev p2 nodad
    far ip addr add 2001:db8:9::9/128 dev lo
    far sh -c "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"
    ip -6 route add 2001:db8:9::/48 via 2001:db8:1::2
    for settings in "0 0" "0 1" "1 0" "1 1"; do
        far sh -c "echo ${settings% *} >/proc/sys/net/ipv6/conf/all/seg6_enabled
            echo ${settings#* } >/proc/sys/net/ipv6/conf/p2/seg6_enabled"
        echo "all ${settings% *}, p2 ${settings#* }: $(python3 probe.py)"
    done' "$tmp")
expected='all 0, p2 0: no answer
all 0, p2 1: no answer
all 1, p2 0: no answer
all 1, p2 1: port unreachable from 2001:db8:9::9'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
