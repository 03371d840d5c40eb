#!/bin/sh
# netaddr takes two addresses of one network for equal when their length is with them.
#
# Guess:   IPNetwork("10.0.0.1/24") and IPNetwork("10.0.0.2/24") differ: they keep their host's part, and print it.
# Package: netaddr 1.3.0 (PyPI).
# Happens: they are equal, and hash alike: a set of the addresses of a LAN's nodes has one of them, a dict by address
#          its last value, and `in` a list finds an address that is not there. Python's own ip_interface tells them
#          apart.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps netaddr==1.3.0 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
seen=$(venv/bin/python - <<'PYTHON'
from ipaddress import ip_interface

from netaddr import IPNetwork

lan = ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"]
for kind in (IPNetwork, ip_interface):
    nodes = [kind(address) for address in lan]
    print("%s: %s, equal %s, a set of three has %d, 10.0.0.9/24 in the list %s" % (
        kind.__name__, nodes[0], nodes[0] == nodes[1], len(set(nodes)), kind("10.0.0.9/24") in nodes))
PYTHON
)
expected='IPNetwork: 10.0.0.1/24, equal True, a set of three has 1, 10.0.0.9/24 in the list True
ip_interface: 10.0.0.1/24, equal False, a set of three has 3, 10.0.0.9/24 in the list False'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
