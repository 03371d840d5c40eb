#!/bin/sh
# A token bucket with a burst of 1500 bytes never passes a packet of 1500 bytes.
#
# Guess:   `tbf rate 10mbit burst 1500` on a link with an MTU of 1500 sends full packets one by one.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: the burst counts the Ethernet header, too. A longer frame does not wait for tokens but is dropped at once:
#          packets up to 1486 bytes pass, longer ones never do, at any rate. So connections are made and then hang.
#          With burst 1514 all pass.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 iputils-ping=3:20221126-1+deb12u1 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'tc qdisc add dev lo root tbf rate 10mbit burst 1500 latency 50ms' 2>/dev/null || skip "no tbf in this kernel"

# The far end needs no address: its counters tell what arrives. Nothing else sends: IPv6 is off.
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip addr add 10.0.0.1/24 dev p1
    ip link set p2 up
    ip link set p1 up
    ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1
    received() { ip -s link show p2 | sed -n "/RX:/{n;p}" | { read -r bytes packets rest; echo "$packets"; }; }
    for burst in 1500 1514; do
        tc qdisc replace dev p1 root tbf rate 10mbit burst "$burst" latency 50ms
        for size in 1486 1487 1500; do
            before=$(received)
            # Nobody answers; each waits 0.2 s, in which the bucket is full again.
            ping -q -c 3 -i 0.2 -W 0.1 -s $((size - 28)) 10.0.0.2 >/dev/null || :
            echo "burst $burst: $(($(received) - before)) of 3 packets of $size bytes"
        done
    done')
expected='burst 1500: 3 of 3 packets of 1486 bytes
burst 1500: 0 of 3 packets of 1487 bytes
burst 1500: 0 of 3 packets of 1500 bytes
burst 1514: 3 of 3 packets of 1486 bytes
burst 1514: 3 of 3 packets of 1487 bytes
burst 1514: 3 of 3 packets of 1500 bytes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
