#!/bin/sh
# A path MTU below 552 is remembered as 552, and packets of 501 to 552 bytes that must not be fragmented never pass.
#
# Guess:   a host that is told of an MTU of 500 remembers 500, and sends packets of 500 bytes at most.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: `ip route get` has `mtu lock 552` (net.ipv4.route.min_pmtu): the host takes 552 bytes for what passes. A
#          ping of 528 bytes with `-M do` still goes out, and is refused on the way each time.
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

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

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
    far ip link add name d1 mtu 500 type veth peer name d2 mtu 500
    for name in d1 d2 p2; do far ip link set "$name" up; done
    ip addr add 10.0.1.2/24 dev p1
    far ip addr add 10.0.1.1/24 dev p2
    far ip addr add 10.0.2.1/24 dev d1
    ip route add default via 10.0.1.1
    far sh -c "echo 1 >/proc/sys/net/ipv4/ip_forward"
    refusal() { ping -M do -c 1 -W 1 -s "$1" 10.0.2.2 2>&1 | grep -o -E "Frag needed.*|message too long.*"; }
    echo "ping of 1028 bytes: $(refusal 1000)"
    echo "then known: $(ip route get 10.0.2.2 | grep -o "mtu.*[0-9]")"
    echo "ping of 528 bytes: $(refusal 500)"
    echo "ping of 528 bytes again: $(refusal 500)"
    echo "ping of 628 bytes: $(refusal 600)"' "$tmp")
expected='ping of 1028 bytes: Frag needed and DF set (mtu = 500)
then known: mtu lock 552
ping of 528 bytes: Frag needed and DF set (mtu = 500)
ping of 528 bytes again: Frag needed and DF set (mtu = 500)
ping of 628 bytes: message too long, mtu=552'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
