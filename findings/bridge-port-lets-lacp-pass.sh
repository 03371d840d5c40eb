#!/bin/sh
# A bridge refuses to forward LACP (01:80:c2:00:00:02), but each of its ports takes the same setting.
#
# Guess:   `group_fwd_mask 0x4` is refused for a port as it is for a bridge, so LACP does not get through a Linux bridge
#          without a patched kernel.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: the bridge answers EINVAL; the port takes it, and frames for 01:80:c2:00:00:02 that come in there pass. For
#          both directions it has to be set at both ports. 0x2, for pause frames, is refused there.
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

# A ping to a neighbour whose MAC is the group address of LACP is the frame. The far end's counter tells what arrives.
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
    ip neigh add 10.0.0.2 lladdr 01:80:c2:00:00:02 dev h1
    received() { ip -s link show "$1" | sed -n "/RX:/{n;p}" | { read -r bytes packets rest; echo "$packets"; }; }
    show() {
        before=$(received h2)
        ping -q -c 3 -i 0.1 -W 0.1 10.0.0.2 >/dev/null || :
        echo "$1: $(($(received h2) - before)) of 3 frames pass"
    }
    show "as it is"
    ip link set br0 type bridge group_fwd_mask 0x4 2>&1 | sed "s/^RTNETLINK answers/bridge, 0x4/"
    ip link set p2 type bridge_slave group_fwd_mask 0x4
    show "port p2, 0x4"
    ip link set p1 type bridge_slave group_fwd_mask 0x4
    show "port p1, 0x4"
    ip link set p1 type bridge_slave group_fwd_mask 0x2 2>&1 | sed "s/^RTNETLINK answers/port p1, 0x2/"')
expected='as it is: 0 of 3 frames pass
bridge, 0x4: Invalid argument
port p2, 0x4: 0 of 3 frames pass
port p1, 0x4: 3 of 3 frames pass
port p1, 0x2: Invalid argument'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
