#!/bin/sh
# IPv4 routes that go with their interface or address go without a word.
#
# Guess:   `ip monitor route` (RTM_DELROUTE) tells of each route that ends, whatever ends it.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: when an interface is set down, IPv4 routes through it are gone and nothing is said of them, whereas each
#          IPv6 route is told. When an address is deleted, its own routes are told, but not the one through a gateway.
#          Who mirrors a routing table must watch links and addresses, too.
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
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
[ -e /proc/sys/net/ipv6 ] || skip "no IPv6"

# The monitor is heard before the change and after it by routes that come and go at lo.
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    ip link add name p1 type veth peer name p2
    ip link set p2 up
    show() {
        ip link set p1 up
        ip addr add 10.0.0.1/24 dev p1
        ip -6 addr add 2001:db8::1/64 dev p1 nodad
        ip route add 10.9.0.0/16 via 10.0.0.2
        ip -6 route add 2001:db8:9::/48 via 2001:db8::2
        ip -o monitor route >told &
        until grep -q "192.0.2.1 dev lo" told; do
            ip route add 192.0.2.1 dev lo
            ip route del 192.0.2.1 dev lo
        done
        eval "$2"
        ip route add 192.0.2.2 dev lo
        until grep -q "192.0.2.2 dev lo" told; do :; done
        kill "$!"
        { wait "$!" || :; } 2>/dev/null
        for family in 4 6; do
            case $family in 4) far=10.9.0.0/16 near=10.0.0.0/24 ;; *) far=2001:db8:9::/48 near=2001:db8::/64 ;; esac
            for route in "$near" "$far"; do
                case $route in "$near") name="on the link" ;; *) name="by a gateway" ;; esac
                left=$(ip -"$family" route show "$route" | grep -c .) || :
                echo "$1, IPv$family route $name: $left left, told $(grep -c "^Deleted $route " told || :)"
            done
        done
        ip addr flush dev p1
        ip route flush dev lo table main
        ip -6 route flush dev p1 table main
    }
    show "interface down" "ip link set p1 down"
    show "address deleted" "ip addr del 10.0.0.1/24 dev p1"' "$tmp")
expected='interface down, IPv4 route on the link: 0 left, told 0
interface down, IPv4 route by a gateway: 0 left, told 0
interface down, IPv6 route on the link: 0 left, told 1
interface down, IPv6 route by a gateway: 0 left, told 1
address deleted, IPv4 route on the link: 0 left, told 1
address deleted, IPv4 route by a gateway: 0 left, told 0
address deleted, IPv6 route on the link: 1 left, told 0
address deleted, IPv6 route by a gateway: 1 left, told 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
