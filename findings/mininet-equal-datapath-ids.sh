#!/bin/sh
# Mininet gives two switches the same datapath id if their names have the same number.
#
# Guess:   core1 and edge1 get different datapath ids, or the second one is refused.
# Package: mininet 2.3.0-1 (Debian 12).
# Happens: the id is the first number in the name, and nothing else counts: both are 1, and controllers
#          know switches by it. Another one has to be said by `dpid`.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    mininet=2.3.0-1 net-tools >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PYTHONPATH=$tmp/root/usr/lib/python3/dist-packages
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export PYTHONPATH LD_LIBRARY_PATH
[ -x /usr/bin/python3 ] || skip "no python3 of the distribution"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
unshare $user --mount --net true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/lab.py" <<'PYTHON'
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Switch

setLogLevel("critical")
net = Mininet(switch=Switch, controller=None)
for switch in (net.addSwitch("core1"), net.addSwitch("edge1"), net.addSwitch("edge2", dpid="a2")):
    print("%s %s" % (switch.name, switch.dpid))
net.stop()
PYTHON
# shellcheck disable=SC2086
seen=$(unshare $user --mount --net /usr/bin/python3 "$tmp/lab.py" 2>"$tmp/err") || { cat "$tmp/err"; exit 1; }
expected='core1 0000000000000001
edge1 0000000000000001
edge2 00000000000000a2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
