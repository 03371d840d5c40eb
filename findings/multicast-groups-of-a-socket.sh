#!/bin/sh
# A socket joins twenty IPv4 multicast groups, and any number of IPv6 ones.
#
# Guess:   both families take what memory allows, or have one limit.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the 21st IPv4 group is refused: no buffer space available (net.ipv4.igmp_max_memberships). Each interface
#          counts: a socket that joins one group on thirty interfaces stops at twenty, too. IPv6 takes both.
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

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
command -v python3 >/dev/null || skip "no python3"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/join.py" <<'PYTHON'
import errno
import socket
import struct

def joined(title, family, level, option, requests):
    member = socket.socket(family, socket.SOCK_DGRAM)
    count = 0
    try:
        for request in requests:
            member.setsockopt(level, option, request)
            count += 1
        print("%s: all %d" % (title, count))
    except OSError as error:
        print("%s: %d, then %s" % (title, count, errno.errorcode[error.errno]))

def group4(group, index):
    return socket.inet_aton(group) + bytes(4) + struct.pack("i", index)

links = sorted(index for index, name in socket.if_nameindex() if name.startswith("p"))
join4 = socket.AF_INET, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP
join6 = socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP
joined("200 IPv4 groups", *join4, [group4("239.1.1.%d" % number, links[0]) for number in range(1, 201)])
joined("one IPv4 group on 30 interfaces", *join4, [group4("224.0.0.5", index) for index in links])
groups6 = [socket.inet_pton(socket.AF_INET6, "ff02::1:%x" % number) for number in range(1, 201)]
joined("200 IPv6 groups", *join6, [group + struct.pack("i", links[0]) for group in groups6])
joined("one IPv6 group on 30 interfaces", *join6, [groups6[0] + struct.pack("i", index) for index in links])
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    echo 20 >/proc/sys/net/ipv4/igmp_max_memberships
    for pair in 1 3 5 7 9 11 13 15 17 19 21 23 25 27 29; do
        ip link add name "p$pair" type veth peer name "p$((pair + 1))"
        ip link set "p$pair" up
        ip link set "p$((pair + 1))" up
    done
    python3 "$0"' "$tmp/join.py")
expected='200 IPv4 groups: 20, then ENOBUFS
one IPv4 group on 30 interfaces: 20, then ENOBUFS
200 IPv6 groups: all 200
one IPv6 group on 30 interfaces: all 30'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
