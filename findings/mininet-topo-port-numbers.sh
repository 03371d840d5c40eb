#!/bin/sh
# A Mininet topology gives a port number that is taken: the next one is the count of ports.
#
# Guess:   a link that names no port takes the next free number, in a Topo as in a running network.
# Package: mininet 2.3.0-1 (Debian 12).
# Happens: net.addLink takes the highest number plus one, but Topo.addLink counts the node's ports: with port 1 in use,
#          a host's second link has port 1 again, and the network of this topology cannot be built. (Ports of a switch
#          count from 1, so there it is port 2 that must not come first.)
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" mininet=2.3.0-1 >"$tmp/apt" 2>&1 ||
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
from mininet.topo import Topo

setLogLevel("critical")

def links(add_link):
    add_link("h1", "h2", port1=1)
    add_link("h1", "h3")

net = Mininet(controller=None)
for host in "h1", "h2", "h3":
    net.addHost(host)
links(lambda a, b, **ports: net.addLink(net.get(a), net.get(b), **ports))
print("net: h1 has", ", ".join(net.get("h1").intfNames()))
net.stop()

topo = Topo()
for host in "h1", "h2", "h3":
    topo.addHost(host)
links(topo.addLink)
print("topo: h1 has", ", ".join("h1-eth%d" % link["port1"] for _, _, link in topo.links(withInfo=True)))
net = Mininet(topo=topo, controller=None, build=False)
try:
    net.build()
    print("built")
except Exception as error:
    print("not built:", str(error).strip())
net.stop()
PYTHON
# shellcheck disable=SC2086
seen=$(unshare $user --mount --net /usr/bin/python3 "$tmp/lab.py" 2>"$tmp/err") || { cat "$tmp/err"; exit 1; }
expected='net: h1 has h1-eth1, h1-eth2
topo: h1 has h1-eth1, h1-eth1
not built: Error creating interface pair (h1-eth1,h3-eth0): RTNETLINK answers: File exists'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
