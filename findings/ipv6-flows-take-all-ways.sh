#!/bin/sh
# With the same hash policy a router spreads the flows of two hosts over several gateways in IPv6, and not in IPv4.
#
# Guess:   fib_multipath_hash_policy 0 (the default, `Layer 3`) sends all between two addresses one way, in IPv4 and
#          in IPv6.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: 64 flows of two hosts take one way in IPv4, both ways in IPv6: there the flow label counts, which Linux
#          gives each connection. So what measures or keeps to one way in IPv4 (a trace, a firewall that sees one
#          direction) does not in IPv6.
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

cat >"$tmp/flows.py" <<'PYTHON'
import socket
import sys

# Each socket is a flow of its own.
for family, address in ((socket.AF_INET, "10.9.0.1"), (socket.AF_INET6, "2001:db8:9::1")):
    if sys.argv[1] == address:
        for _ in range(64):
            with socket.socket(family, socket.SOCK_DGRAM) as flow:
                flow.sendto(bytes(1000), (address, 9))
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
    # This node sends by p0 to the router, which has two ways on: what it sends there goes nowhere, and is counted.
    for number in 0 1 2; do
        ip link add name "p$number" address 02:00:00:00:00:02 type veth peer name "r$number" netns "$router"
        ip link set "p$number" up
        far ip link set "r$number" up
        far ip addr add "10.0.$number.1/24" dev "r$number"
        far ip addr add "2001:db8:$number::1/64" dev "r$number" nodad
        far ip neigh add "10.0.$number.2" lladdr 02:00:00:00:00:02 dev "r$number"
        far ip neigh add "2001:db8:$number::2" lladdr 02:00:00:00:00:02 dev "r$number"
    done
    ip addr add 10.0.0.2/24 dev p0
    ip addr add 2001:db8:0::2/64 dev p0 nodad
    ip route add default via 10.0.0.1
    ip -6 route add default via 2001:db8:0::1
    far sh -c "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
        echo policies: \$(cat /proc/sys/net/ipv4/fib_multipath_hash_policy) \
            \$(cat /proc/sys/net/ipv6/fib_multipath_hash_policy)"
    far ip route add 10.9.0.0/16 nexthop via 10.0.1.2 nexthop via 10.0.2.2
    far ip -6 route add 2001:db8:9::/48 nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2
    # Packets of 1000 bytes that left there: those of neighbour discovery are too small to count.
    thousands() {
        far cat /proc/net/dev | sed -n "s/^ *$1: *//p" |
            { read -r a b c d e f g h bytes rest; echo $((bytes / 1000)); }
    }
    measure() {
        address=$1
        one=$(thousands r1) two=$(thousands r2)
        python3 flows.py "$address"
        until [ $(($(thousands r1) + $(thousands r2) - one - two)) -ge 64 ]; do :; done
        ways=0
        [ $(($(thousands r1) - one)) -lt 8 ] || ways=$((ways + 1))
        [ $(($(thousands r2) - two)) -lt 8 ] || ways=$((ways + 1))
        echo "64 flows to $address$2: $ways way(s)"
    }
    measure 10.9.0.1 ""
    measure 2001:db8:9::1 ""
    echo 0 >/proc/sys/net/ipv6/auto_flowlabels
    measure 2001:db8:9::1 ", auto_flowlabels 0"' "$tmp")
expected='policies: 0 0
64 flows to 10.9.0.1: 1 way(s)
64 flows to 2001:db8:9::1: 2 way(s)
64 flows to 2001:db8:9::1, auto_flowlabels 0: 1 way(s)'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
