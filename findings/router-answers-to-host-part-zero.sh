#!/bin/sh
# A node that sends to the address of its IPv6 prefix with a host part of zero gets an answer from the router.
#
# Guess:   2001:db8:1:: is like 10.0.0.0 of a /24: nobody's address, and nobody answers.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: a node that forwards answers for it, at once when forwarding is turned on, since it is the anycast address of
#          a subnet's routers. It does not for a /127, nor without forwarding.
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

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
[ -e /proc/sys/net/ipv6 ] || skip "no IPv6"

mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$1"
    ip link add name p1 type veth peer name p2
    unshare --net sh -c "echo there; exec sleep 120" >ready &
    read -r there <ready
    router() { nsenter --target "$!" --net "$@"; }
    ip link set p2 netns "$!"
    ip link set p1 up
    router ip link set p2 up
    for length in 64 127; do
        ip addr add "2001:db8:$length::2/64" dev p1 nodad
        router ip addr add "2001:db8:$length::1/$length" dev p2 nodad
    done
    ip addr add 10.0.0.2/24 dev p1
    router ip addr add 10.0.0.1/24 dev p2
    # IPv6 is used when the link-local addresses are.
    until ! ip -6 addr show | grep -q tentative && ! router ip -6 addr show | grep -q tentative; do :; done
    asked() { ping -q -c 1 -W "$2" "$1" 2>/dev/null | grep -o "[01] received"; }
    show() {
        echo "$1: 10.0.0.0: $(asked 10.0.0.0 0.2), /64: $(asked 2001:db8:64:: "$2"), /127: $(asked 2001:db8:127:: 0.2)"
    }
    asked 2001:db8:64::1 20 >answer
    show host 0.2
    router sh -c "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; echo 1 >/proc/sys/net/ipv4/ip_forward"
    show router 20
    kill "$!"' sh "$tmp")
expected='host: 10.0.0.0: 0 received, /64: 0 received, /127: 0 received
router: 10.0.0.0: 0 received, /64: 1 received, /127: 0 received'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
