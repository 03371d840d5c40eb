#!/bin/sh
# A permanent neighbour is gone after its interface was down, or got another MAC address.
#
# Guess:   `ip neigh add … nud permanent` stays until somebody deletes it or the interface; only learnt entries go.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: it survives a loss of carrier, but not `ip link set … down`, a new MAC address of the interface or
#          `arp off`: a node whose interface was down once asks by ARP again, or is cut off where nobody answers.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    carrier() { ip link set p2 "$1"; until ip link show p1 | grep -q "$2"; do :; done; }
    show() {
        ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1 nud permanent
        eval "$2"
        echo "$1: $(ip neigh show 10.0.0.2 dev p1 | grep -c PERMANENT)"
    }
    show "no carrier" "carrier down NO-CARRIER; carrier up LOWER_UP"
    show "down and up" "ip link set p1 down; ip link set p1 up"
    show "another MAC" "ip link set p1 address 02:00:00:00:00:11"
    show "arp off and on" "ip link set p1 arp off; ip link set p1 arp on"')
expected='no carrier: 1
down and up: 0
another MAC: 0
arp off and on: 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
