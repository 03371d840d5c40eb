#!/bin/sh
# A new network namespace copies the IPv4 settings of the machine's first one, not those of its creator.
#
# Guess:   a new namespace has the kernel's defaults (no forwarding), or those of the namespace it is created from.
# Kernel:  seen on Linux 6.18, with the default net.core.devconf_inherit_init_net=0.
# Happens: IPv4 settings are copied from the initial namespace, not from the creator's: on a machine that runs Docker
#          (forwarding on) every node of every lab forwards IPv4, also one created inside a node that has it off. IPv6
#          settings are the kernel's defaults in any case.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }

inherit=$(cat /proc/sys/net/core/devconf_inherit_init_net 2>/dev/null) || skip "not in the initial network namespace"
[ "$inherit" = 0 ] || skip "net.core.devconf_inherit_init_net is $inherit"
[ -e /proc/sys/net/ipv6 ] || skip "no IPv6"
user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"

initial=$(cat /proc/sys/net/ipv4/ip_forward)
creator=$((1 - initial))
# shellcheck disable=SC2016
seen=$(alone '
    echo "$1" >/proc/sys/net/ipv4/ip_forward
    echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
    echo "creator: IPv4 $(cat /proc/sys/net/ipv4/ip_forward), IPv6 $(cat /proc/sys/net/ipv6/conf/all/forwarding)"
    unshare --net sh -c "
        echo new: IPv4 \$(cat /proc/sys/net/ipv4/ip_forward), IPv6 \$(cat /proc/sys/net/ipv6/conf/all/forwarding)"
' sh "$creator")
expected="creator: IPv4 $creator, IPv6 1
new: IPv4 $initial, IPv6 0"

echo "forwarding in the initial namespace: IPv4 $initial"
echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
