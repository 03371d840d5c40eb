#!/bin/sh
# A router answers six of twenty packets whose TTL ends there.
#
# Guess:   each packet whose TTL ends at an idle router is answered: time exceeded.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: of a burst six are answered, IPv4 and IPv6 (see net.ipv4.icmp_ratelimit). Who sends many probes at a time
#          sees losses at a hop that loses nothing.
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

cat >"$tmp/probe.py" <<'PYTHON'
import socket

# protocol of the answers, option of the TTL, type of a "time exceeded" and its place (raw IPv4 has the header)
for family, address, icmp, level, option, kind, place in (
    (socket.AF_INET, "10.9.0.1", socket.IPPROTO_ICMP, socket.IPPROTO_IP, socket.IP_TTL, 11, 20),
    (socket.AF_INET6, "2001:db8:9::1", socket.IPPROTO_ICMPV6, socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 3, 0),
):
    answers = socket.socket(family, socket.SOCK_RAW, icmp)
    answers.settimeout(0.5)
    for port in range(20):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.setsockopt(level, option, 1)
            probe.sendto(b"probe", (address, 33434 + port))
    count = 0
    try:
        while True:
            count += answers.recv(2048)[place] == kind
    except socket.timeout:
        pass
    # One more on a machine that takes a second for all this.
    print("20 probes to %s: %s answers" % (address, "some 6" if 6 <= count <= 7 else count))
PYTHON
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    # A node of its own for the router: it ends with this one.
    unshare --net sh -c "echo there; exec sleep 300" >ready &
    read -r there <ready
    router=$!
    far() { nsenter --target "$router" --net "$@"; }
    ip link add name p1 type veth peer name p2 netns "$router"
    ip link set p1 up
    far ip link set p2 up
    ip addr add 10.0.1.2/24 dev p1
    ip addr add 2001:db8:1::2/64 dev p1 nodad
    far ip addr add 10.0.1.1/24 dev p2
    far ip addr add 2001:db8:1::1/64 dev p2 nodad
    ip route add default via 10.0.1.1
    ip -6 route add default via 2001:db8:1::1
    far sh -c "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"
    far ip route add default via 10.0.1.3
    far ip -6 route add default via 2001:db8:1::3
    python3 probe.py' "$tmp")
expected='20 probes to 10.9.0.1: some 6 answers
20 probes to 2001:db8:9::1: some 6 answers'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
