#!/bin/sh
# Mininet gives an address without a length a /8.
#
# Guess:   `addHost("h1", ip="192.168.1.1")` gets a /32 or a /24 (its class), or is refused.
# Package: mininet 2.3.0-1, iproute2 6.1.0-3 (Debian 12).
# Happens: it gets 192.168.1.1/8, whatever its class, and so does `setIP`: a host takes all of 192.0.0.0/8 for its
#          own link, and asks there for what is behind a router.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    mininet=2.3.0-1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone 'ip link add name p1 type veth peer name p2' 2>"$tmp/try" || skip "no namespaces, or no veth"

cat >"$tmp/net.py" <<'PYTHON'
import sys

sys.path.insert(0, sys.argv[1] + "/root/usr/lib/python3/dist-packages")
from mininet.net import Mininet

net = Mininet(build=False, controller=None)
h1 = net.addHost("h1", ip="192.168.1.1")
h2 = net.addHost("h2", ip="192.168.1.2/24")
net.addLink(h1, h2)
net.build()
for host in (h1, h2):
    print(host.cmd("ip -br -4 addr show dev %s-eth0" % host.name).split()[2])
h2.setIP("172.16.5.5")
print(h2.cmd("ip -br -4 addr show dev h2-eth0").split()[2])
net.stop()
PYTHON
# shellcheck disable=SC2016
seen=$(alone 'python3 "$0/net.py" "$0" 2>"$0/log"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='192.168.1.1/8
192.168.1.2/24
172.16.5.5/8'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
