#!/bin/sh
# Two VXLAN interfaces of one number cannot share a port, not even between other pairs of addresses.
#
# Guess:   a tunnel is its two addresses and its number: with other addresses at both ends VNI 5 may be used again.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the second one is refused: `A VXLAN device with the specified VNI already exists`, with other `local` and
#          `remote` addresses. With another port, or of IPv6 beside IPv4, it is not.
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
alone 'ip link add name v0 type vxlan id 5 dstport 4789 local 10.0.1.1' 2>/dev/null || skip "no vxlan in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    attempt() {
        name=$1
        shift
        if answer=$(ip link add name "$name" type vxlan "$@" 2>&1); then answer=made; fi
        echo "$name: $answer"
    }
    attempt v1 id 5 local 10.0.1.1 remote 10.0.1.2 dstport 4789
    attempt v2 id 5 local 10.0.2.1 remote 10.0.2.2 dstport 4789
    attempt v3 id 5 local 10.0.2.1 remote 10.0.2.2 dstport 4790
    attempt v4 id 5 local 2001:db8::1 remote 2001:db8::2 dstport 4789
    attempt v5 id 6 local 10.0.2.1 remote 10.0.2.2 dstport 4789')
expected='v1: made
v2: Error: A VXLAN device with the specified VNI already exists.
v3: made
v4: made
v5: made'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
