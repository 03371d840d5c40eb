#!/bin/sh
# pyroute2 balances 2 to 3 where `hops` of two gateways are 1 and 2.
#
# Guess:   `hops` is the gateway's weight, as `weight` of `ip route` is: one third by the first one, two thirds by the
#          second.
# Package: pyroute2 0.9.7 (PyPI), iproute2 6.1.0-3 (Debian 12).
# Happens: it is the kernel's rtnh_hops, the weight less 1, as it stands: `hops: 1` is weight 2. Without it, or with 0,
#          the weight is 1.
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
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps pyroute2==0.9.7 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cd "$tmp"
cat >routes.py <<'PYTHON'
from pyroute2 import IPRoute

with IPRoute() as route:
    gateways = [{"gateway": "10.0.0.2", "hops": 1}, {"gateway": "10.0.0.3", "hops": 2}]
    route.route("add", dst="10.9.0.0/16", multipath=gateways)
    route.route("add", dst="10.8.0.0/16", multipath=[{"gateway": "10.0.0.2"}, {"gateway": "10.0.0.3", "hops": 0}])
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    venv/bin/python routes.py
    ip route add 10.7.0.0/16 nexthop via 10.0.0.2 weight 1 nexthop via 10.0.0.3 weight 2
    weights() { ip route show "$1" | sed -n "s/.*via \([^ ]*\) .*weight \([0-9]*\).*/\1 \2/p" | paste -sd ,; }
    echo "pyroute2, hops 1 and 2: $(weights 10.9.0.0/16)"
    echo "pyroute2, no hops and 0: $(weights 10.8.0.0/16)"
    echo "ip route, weight 1 and 2: $(weights 10.7.0.0/16)"')
expected='pyroute2, hops 1 and 2: 10.0.0.2 2,10.0.0.3 3
pyroute2, no hops and 0: 10.0.0.2 1,10.0.0.3 1
ip route, weight 1 and 2: 10.0.0.2 1,10.0.0.3 2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
