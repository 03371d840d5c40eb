#!/bin/sh
# `arping -D` succeeds for a free address in two of three programs of that name, and for a taken one in the third.
#
# Guess:   -D is duplicate address detection in each `arping`: exit code 0 says that nobody has the address.
# Package: arping 2.23-1, iputils-arping 3:20221126-1+deb12u1, busybox 1:1.35.0-4+deb12u1+b1, iproute2 6.1.0-3 (Debian
#          12).
# Happens: so it is in iputils and busybox. In the package `arping` -D prints a sign for each answer, and the exit
#          code is 0 where somebody answers: a script that asks before it takes an address takes those that are in
#          use.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    arping=2.23-1 libnet1=1.1.6+dfsg-3.2 libseccomp2=2.5.4-1+deb12u1 iproute2=6.1.0-3 \
    'busybox=1:1.35.0-4+deb12u1+b1' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

[ "$(id -u)" -eq 0 ] || skip "arping needs root"
alone() { unshare --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# The other package has its files at the same places.
mkdir -p "$tmp/other/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/other" 'iputils-arping=3:20221126-1+deb12u1' \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/other/iputils-arping*.deb; do dpkg-deb -x "$deb" "$tmp/iputils"; done
mkfifo "$tmp/ready"

# 10.0.0.2 is another node's, 10.0.0.3 nobody's.
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    unshare --net sh -c "echo there; exec sleep 60" >ready &
    read -r there <ready
    ip link add name p1 type veth peer name p2 netns "$!"
    nsenter --target "$!" --net ip link set p2 up
    nsenter --target "$!" --net ip addr add 10.0.0.2/24 dev p2
    ip link set p1 up
    ip addr add 10.0.0.1/24 dev p1
    show() {
        name=$1
        shift
        for address in 10.0.0.2 10.0.0.3; do
            code=0
            "$@" -D -c 1 -w 1 "$address" >out 2>&1 || code=$?
            echo "$name -D $address: exit code $code"
        done
    }
    show iputils "$(find iputils -name arping -type f)" -I p1
    show busybox busybox arping -I p1
    show arping arping -i p1' "$tmp")
expected='iputils -D 10.0.0.2: exit code 1
iputils -D 10.0.0.3: exit code 0
busybox -D 10.0.0.2: exit code 1
busybox -D 10.0.0.3: exit code 0
arping -D 10.0.0.2: exit code 0
arping -D 10.0.0.3: exit code 1'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
