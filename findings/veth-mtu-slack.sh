#!/bin/sh
# A veth end with an MTU of 1500 receives IP packets of 1504 bytes, and drops longer ones without a word.
#
# Guess:   between ends of MTU 9000 and 1500, packets above 1500 bytes are lost (or all arrive: an MTU is for sending).
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: the kernel allows for a VLAN tag, whether there is one or not: 1501 to 1504 bytes arrive, 1505 are dropped.
#          Nobody is told (no ICMP, no error for the sender); the drop is counted at both ends, as TX of the sender
#          and RX of the receiver.
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

# The far end needs no address: its counters tell what arrives. Nothing else sends: IPv6 is off.
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 mtu 9000 type veth peer name p2
    ip addr add 10.0.0.1/24 dev p1
    ip link set p2 up
    ip link set p1 up
    ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1
    # received, and dropped at either end
    counters() {
        ip -s link show p2 | sed -n "/RX:/{n;p}" | { read -r bytes packets errors dropped rest; echo "$packets $dropped"; }
        ip -s link show p1 | sed -n "/TX:/{n;p}" | { read -r bytes packets errors dropped rest; echo "$dropped"; }
    }
    for size in 1500 1501 1504 1505; do
        set -- $(counters)
        ping -q -M do -c 1 -W 0.1 -s $((size - 28)) 10.0.0.2 >"$0" 2>&1 || :
        grep -i -e error -e "too long" "$0" || :
        received=$1 rx=$2 tx=$3
        set -- $(counters)
        echo "$size bytes: $(($1 - received)) received, $(($2 - rx)) RX dropped, $(($3 - tx)) TX dropped"
    done' "$tmp/ping")
expected='1500 bytes: 1 received, 0 RX dropped, 0 TX dropped
1501 bytes: 1 received, 0 RX dropped, 0 TX dropped
1504 bytes: 1 received, 0 RX dropped, 0 TX dropped
1505 bytes: 0 received, 1 RX dropped, 1 TX dropped'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
