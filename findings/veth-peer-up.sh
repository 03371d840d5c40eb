#!/bin/sh
# A veth pair whose second end is to be up from the start is not created at all.
#
# Guess:   both ends may be created up; the message has a full set of flags for each.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the first end may be up. With the second one up the kernel opens it before the ends know each other, which
#          fails with ENOTCONN ("Transport endpoint is not connected"), and takes the pair back. The second end has to
#          be raised by a message of its own.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    pair() { "$@" 2>&1 || echo "exit code $?"; ip -br link | sed -n "s/^\(p[12]@p[12]\).*<\(.*\)>.*/\1 \2/p" | sort; }
    echo "first end up:"
    pair ip link add name p1 up type veth peer name p2
    ip link del p1
    echo "second end up:"
    pair ip link add name p1 type veth peer name p2 up')
expected='first end up:
p1@p2 BROADCAST,MULTICAST,UP,M-DOWN
p2@p1 BROADCAST,MULTICAST
second end up:
RTNETLINK answers: Transport endpoint is not connected
exit code 2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
