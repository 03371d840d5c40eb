#!/bin/sh
# nstat in one node subtracts the counters of another.
#
# Guess:   a network namespace has its own counters, so `nstat` there shows what that namespace counted.
# Package: iproute2 6.1.0-3 (Debian 12).
# Happens: nstat prints the difference from the values it saw last, and keeps these in one file for each user,
#          /tmp/.nstat.u0. It does not tell namespaces apart: after 5 echo requests in one node, 12 in another are
#          shown as 7; when the other received fewer, the line is missing. With a file of its own in NSTAT_HISTORY, or
#          with `nstat --absolute`, each node is right.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 iputils-ping=3:20221126-1+deb12u1 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

# Its own /tmp keeps the history of this machine's user as it is.
# shellcheck disable=SC2016
seen=$(alone '
    mount -t tmpfs none /tmp
    node() {
        unshare --net sh -eu -c "
            ip link set lo up
            ping -q -c $2 -i 0.01 127.0.0.1 >/dev/null
            echo $1 received $2, nstat: \$(nstat | sed -n \"s/^IcmpInEchos  *\([0-9]*\).*/\1/p\")"
    }
    node n1 5
    node n2 12
    node n3 3
    NSTAT_HISTORY=/tmp/n4 node n4 2
    ls /tmp/.nstat*')
expected='n1 received 5, nstat: 5
n2 received 12, nstat: 7
n3 received 3, nstat:
n4 received 2, nstat: 2
/tmp/.nstat.u0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
