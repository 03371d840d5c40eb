#!/bin/sh
# CNI's host-local gives a container that comes back another address, though its old one is free.
#
# Guess:   the lowest free address of the range, or the one that the container had.
# Package: containernetworking-plugins 1.1.1+ds1-3+b5 (Debian 12).
# Happens: it goes on behind the last one that it gave, and takes what was given back only when the end of the range
#          is reached. So an address changes each time that a container is made once more.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    containernetworking-plugins=1.1.1+ds1-3+b5 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PATH=$tmp/root/usr/lib/cni:$PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
cat >conf <<CONF
{"cniVersion": "0.4.0", "name": "lab", "type": "bridge",
 "ipam": {"type": "host-local", "dataDir": "$tmp/data", "ranges": [[{"subnet": "10.0.0.0/29"}]]}}
CONF
call() {
    CNI_COMMAND=$1 CNI_CONTAINERID=$2 CNI_NETNS=/proc/self/ns/net CNI_IFNAME=eth0 CNI_PATH=$tmp/root/usr/lib/cni \
        host-local <conf >answer
    echo "$1 $2: $(sed -n 's/.*"address": "\([^"]*\)".*/\1/p' answer)"
}
seen=$(
    call ADD a
    call ADD b
    for time in 1 2 3 4; do
        call DEL a
        call ADD a
    done | grep ADD
)
expected='ADD a: 10.0.0.2/29
ADD b: 10.0.0.3/29
ADD a: 10.0.0.4/29
ADD a: 10.0.0.5/29
ADD a: 10.0.0.6/29
ADD a: 10.0.0.2/29'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
