#!/bin/sh
# `bridge fdb add MAC dev p2 master permanent` gives the frames for MAC to the bridge's own host, not to p2.
#
# Guess:   `permanent` is an entry that does not age: frames for MAC always leave at p2, as with `static`.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: `permanent`, which is what the command takes without a word, says that MAC is the bridge's own: frames for it
#          go up into the machine that has the bridge, and p2 never gets one. The entry is listed with `dev p2` in both
#          cases. `static` does what one wants.
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
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name br0 type bridge' 2>/dev/null || skip "no bridge in this kernel"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# A ping to a neighbour whose MAC is given is the frame; nobody answers. The counters tell where it arrives.
# Nothing else sends: IPv6 and multicast snooping are off.
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name br0 type bridge mcast_snooping 0
    ip link set br0 up
    for number in 1 2; do
        ip link add name "p$number" type veth peer name "h$number"
        ip link set "p$number" master br0 up
        ip link set "h$number" up
    done
    ip addr add 10.0.0.1/24 dev h1
    ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:77 dev h1
    received() { ip -s link show "$1" | sed -n "/RX:/{n;p}" | { read -r bytes packets rest; echo "$packets"; }; }
    for kind in static permanent ""; do
        bridge fdb add 02:00:00:00:00:77 dev p2 master $kind
        far=$(received h2)
        own=$(received br0)
        ping -q -c 3 -i 0.1 -W 0.1 10.0.0.2 >/dev/null || :
        echo "${kind:-without a word}: $(($(received h2) - far)) of 3 frames leave at p2," \
            "$(($(received br0) - own)) go to br0"
        bridge fdb del 02:00:00:00:00:77 dev p2 master
    done')
expected='static: 3 of 3 frames leave at p2, 0 go to br0
permanent: 0 of 3 frames leave at p2, 3 go to br0
without a word: 0 of 3 frames leave at p2, 3 go to br0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
