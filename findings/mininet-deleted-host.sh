#!/bin/sh
# In Mininet a host whose neighbour is deleted has no address.
#
# Guess:   `net.delHost(h2)` removes the link of h2 to h1 as `net.delLink` does, and h1 has its address on what it has left.
# Package: mininet 2.3.0-1 (Debian 12).
# Happens: the kernel removes both ends of the link, but h1 still counts its own: its address goes to the interface that
#          is gone, and the other one has none. After `net.delLink` it has it.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" mininet=2.3.0-1 net-tools >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/bin:$tmp/root/bin:$tmp/root/sbin:$PATH
PYTHONPATH=$tmp/root/usr/lib/python3/dist-packages
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*)
export PYTHONPATH LD_LIBRARY_PATH
[ -x /usr/bin/python3 ] || skip "no python3 of the distribution"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
unshare $user --mount --net true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/lab.py" <<'PYTHON'
from mininet.log import setLogLevel
from mininet.net import Mininet

setLogLevel("critical")

def show(title, remove):
    net = Mininet(controller=None)
    h1, h2, h3 = (net.addHost(name, ip="10.0.0.%s/8" % name[1]) for name in ("h1", "h2", "h3"))
    first = net.addLink(h1, h2)
    net.addLink(h1, h3)
    remove(net, h2, first)
    net.build()
    lines = h1.cmd("ip -4 -brief address show scope global").split("\n")
    there = [name for name in h1.cmd("ls /sys/class/net").split() if name.startswith("h1")]
    addresses = [word for line in lines for word in line.split() if word.startswith("10.")]
    print("%s: h1 has %s with %s" % (title, ", ".join(there), ", ".join(addresses) or "no address"))
    net.stop()

show("delLink", lambda net, host, link: net.delLink(link))
show("delHost", lambda net, host, link: net.delHost(host))
PYTHON
# shellcheck disable=SC2086
seen=$(unshare $user --mount --net /usr/bin/python3 "$tmp/lab.py" 2>"$tmp/err") || { cat "$tmp/err"; exit 1; }
expected='delLink: h1 has h1-eth1 with 10.0.0.1/8
delHost: h1 has h1-eth1 with no address'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
