#!/bin/sh
# An address that is added at another node is told to nobody, and its peers go on sending to the old one.
#
# Guess:   the new node sends a gratuitous ARP when it gets the address, or with `arp_notify` at least, and an
#          unsolicited advertisement in IPv6.
# Package: iproute2 6.1.0-3, iputils-ping, iputils-arping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: it sends nothing in IPv4, `arp_notify` or not, and in IPv6 nothing that a peer takes up. The peer keeps the
#          old MAC address while its entry is fresh: two seconds later there is no answer yet. `arping -U` at the new
#          node mends it at once.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 'iputils-ping=3:20221126-1+deb12u1' 'iputils-arping=3:20221126-1+deb12u1' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

mkfifo "$tmp/ready"

# h1 and h2 have the address one after the other; the asking host is this namespace. All are ports of a bridge.
# shellcheck disable=SC2016
seen=$(alone '
    echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
    ip link add name br0 type bridge mcast_snooping 0
    ip addr add 10.0.0.1/24 dev br0
    ip addr add 2001:db8::1/64 dev br0
    ip link set br0 up
    for host in h1 h2; do
        unshare --net sh -c "echo there; exec sleep 60" >"$0/ready" &
        read -r there <"$0/ready"
        ip link add name "$host" master br0 type veth peer name eth0 netns "$!"
        ip link set "$host" up
        eval "$host=$!"
    done
    in1() { nsenter --target "$h1" --net "$@"; }
    in2() { nsenter --target "$h2" --net "$@"; }
    for host in in1 in2; do $host ip link set eth0 up; done
    answers() { if ping -q -c 1 -W 1 "$1" >/dev/null; then echo yes; else echo no; fi; }
    show() {
        address=$1
        in1 ip addr add "$address/$2" dev eth0
        until [ "$(answers "$address")" = yes ]; do :; done
        in1 ip addr del "$address/$2" dev eth0
        in2 ip addr add "$address/$2" dev eth0
        sleep 2
        echo "$address at h2: answer $(answers "$address")"
    }
    show 10.0.0.9 24
    in2 arping -q -U -c 1 -I eth0 10.0.0.9
    echo "after arping -U: answer $(answers 10.0.0.9)"
    in2 sh -c "echo 1 >/proc/sys/net/ipv4/conf/eth0/arp_notify"
    echo "with arp_notify"
    show 10.0.0.10 24
    show 2001:db8::9 64' "$tmp")
expected='10.0.0.9 at h2: answer no
after arping -U: answer yes
with arp_notify
10.0.0.10 at h2: answer no
2001:db8::9 at h2: answer no'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
