#!/bin/sh
# Switching net.ipv4.ip_forward sets accept_redirects of `all`, whatever was set there before.
#
# Guess:   net.ipv4.ip_forward and net.ipv4.conf.all.accept_redirects are two settings, which may be set in any
#          order.
# Package: none, on Linux 6.18.
# Happens: the first one sets the second: to 0 when it becomes 1, to 1 when it becomes 0. A host that was told to
#          refuse redirects, routes for a while and is a host again, accepts them; in a file for sysctl the order of
#          the lines counts. Settings of the interfaces and of `default` stay.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
[ -e /proc/sys/net/ipv4/ip_forward ] || skip "no IPv4 in this kernel"

# Three orders of the same two writes, and what is left of the first one.
# shellcheck disable=SC2016
seen=$(alone '
    cd /proc/sys/net/ipv4
    redirects=conf/all/accept_redirects
    echo 0 >ip_forward
    echo 1 >$redirects
    echo 1 >ip_forward
    echo "redirects 1, forward 1: redirects $(cat $redirects)"
    echo 1 >$redirects
    echo "forward 1, redirects 1: redirects $(cat $redirects)"
    echo 0 >ip_forward
    echo 0 >$redirects
    echo 1 >ip_forward
    echo 0 >ip_forward
    echo "redirects 0, forward 1, forward 0: redirects $(cat $redirects)"')
expected='redirects 1, forward 1: redirects 0
forward 1, redirects 1: redirects 1
redirects 0, forward 1, forward 0: redirects 1'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
