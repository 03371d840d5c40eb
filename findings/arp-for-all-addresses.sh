#!/bin/sh
# A node answers ARP requests for an address of its loopback at any interface; in IPv6 it does not.
#
# Guess:   at an interface it answers for the addresses of that interface, in IPv4 as in IPv6.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: who asks on the link for an address of the node's loopback gets an answer in IPv4 (arp_ignore 0, the kernel's
#          default), and none in IPv6. With arp_ignore 1 IPv4 is as IPv6 is.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 iputils-ping=3:20221126-1+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
mkfifo "$tmp/ready"

# shellcheck disable=SC2016
seen=$(alone '
    unshare --net sh -c "echo there; exec sleep 300" >"$0" &
    read -r there <"$0"
    far=$!
    ip link add name p1 type veth peer name p2 netns "$far"
    client() { nsenter --target "$far" --net "$@"; }
    ip link set lo up
    ip link set p1 up
    client ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    client ip addr add 10.0.0.2/24 dev p2
    client ip addr add 2001:db8::2/64 dev p2 nodad
    ip addr add 2001:db8::1/64 dev p1 nodad
    ip addr add 10.9.9.9/32 dev lo
    ip addr add 2001:db8:9::9/128 dev lo
    client ip route add 10.9.9.9/32 dev p2
    client ip route add 2001:db8:9::9/128 dev p2
    asked() { if client ping -c 1 -W 3 "$1" >/dev/null; then echo "$2: answered"; else echo "$2: nobody answers"; fi; }
    asked 2001:db8::1 "IPv6 address of the interface"
    asked 2001:db8:9::9 "IPv6 address of lo"
    asked 10.9.9.9 "IPv4 address of lo"
    client ip neigh flush dev p2
    echo 1 >/proc/sys/net/ipv4/conf/p1/arp_ignore
    asked 10.9.9.9 "IPv4 address of lo, arp_ignore 1"
    kill "$far"' "$tmp/ready")
expected='IPv6 address of the interface: answered
IPv6 address of lo: nobody answers
IPv4 address of lo: answered
IPv4 address of lo, arp_ignore 1: nobody answers'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
