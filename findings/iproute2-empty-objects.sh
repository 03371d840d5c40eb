#!/bin/sh
# `ip -j link show up` has an empty object for each interface that is not up.
#
# Guess:   a filter leaves out in JSON what it leaves out in the text.
# Package: iproute2 6.1.0-3 (Debian 12).
# Happens: with `up` each interface that is down is there as {}: the list is longer than the text, and its first
#          element has no name. The filters `type` and `master`, and `-4` for addresses, leave nothing behind.
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
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    ip link add name br0 type bridge
    ip link add name p1 type veth peer name p2
    ip link set p1 master br0
    ip link set p2 up
    show() {
        text=$(ip -o "$@" | wc -l)
        ip -j "$@" | python3 -c "import json, sys
found = [each.get(\"ifname\", \"{}\") for each in json.load(sys.stdin)]
print(sys.argv[1] + \": \" + sys.argv[2] + \" in the text, in JSON\", *found)" "$*" "$text"
    }
    show link show up
    show link show type veth
    show link show type bridge
    show link show master br0
    show -4 addr show')
expected='link show up: 1 in the text, in JSON {} {} p2 {}
link show type veth: 2 in the text, in JSON p2 p1
link show type bridge: 1 in the text, in JSON br0
link show master br0: 1 in the text, in JSON p1
-4 addr show: 0 in the text, in JSON'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
