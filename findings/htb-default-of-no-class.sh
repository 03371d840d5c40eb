#!/bin/sh
# `htb default 77` without a class 77 sends without a limit.
#
# Guess:   it is refused, or what no filter picks is dropped, or it waits in a class that there is.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: it leaves directly, at the speed of the interface, and no class counts it; so it is without `default`. A
#          slip in a number removes the limit. The only trace is `direct_packets_stat`. `default 1` sends it through
#          class 1.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 'iputils-ping=3:20221126-1+deb12u1' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

alone 'ip link add name p1 type veth peer name p2; tc qdisc add dev p1 root handle 1: htb' 2>/dev/null ||
    skip "no htb in this kernel"
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p2 up
    ip link set p1 up
    ip addr add 10.0.0.1/24 dev p1
    ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1 nud permanent
    show() {
        name=$1
        shift
        tc qdisc add dev p1 root handle 1: htb "$@"
        tc class add dev p1 parent 1: classid 1:1 htb rate 1mbit
        ping -q -c 3 -i 0.2 -W 0.1 10.0.0.2 >/dev/null || :
        direct=$(tc qdisc show dev p1 | sed "s/.*direct_packets_stat \([0-9]*\) .*/\1/")
        class=$(tc -s class show dev p1 | sed -n "s/.*Sent [0-9]* bytes \([0-9]*\) pkt.*/\1/p")
        echo "$name: 3 packets, direct $direct, class 1 $class"
        tc qdisc del dev p1 root
    }
    show "without a default"
    show "default 77" default 77
    show "default 1" default 1')
expected='without a default: 3 packets, direct 3, class 1 0
default 77: 3 packets, direct 3, class 1 0
default 1: 3 packets, direct 0, class 1 3'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
