#!/bin/sh
# pyroute2 takes a rate without a unit for bytes a second, and tc for bits.
#
# Guess:   `rate=10000000` is what `tc … rate 10000000` is, 10 Mbit/s.
# Package: pyroute2 0.9.7 (PyPI), iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: it is 80 Mbit/s, while `rate="10mbit"` is 10 Mbit/s, as with tc. Nothing is said: a limit read as a number
#          from a file is eight times as high.
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
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps pyroute2==0.9.7 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/rate.py" <<'PYTHON'
import subprocess

from pyroute2 import IPRoute

def show(name):
    text = subprocess.run(["tc", "qdisc", "show", "dev", "p1"], capture_output=True, text=True, check=True).stdout
    print("%s: %s" % (name, text.split(" rate ")[1].split()[0]))

with IPRoute() as route:
    route.link("add", ifname="p1", kind="veth", peer="p2")
    index = route.link_lookup(ifname="p1")[0]
    for rate in (10000000, "10mbit"):
        route.tc("add", "tbf", index, 0x10000, rate=rate, burst=10000, latency=50000)
        show("pyroute2, rate=%r" % rate)
        route.tc("del", index=index, handle=0x10000, root=True)
for rate in ("10000000", "10mbit"):
    subprocess.run("tc qdisc add dev p1 root tbf burst 10000 latency 50ms rate".split() + [rate], check=True)
    show("tc, rate " + rate)
    subprocess.run("tc qdisc del dev p1 root".split(), check=True)
PYTHON
# shellcheck disable=SC2016
seen=$(alone '"$0/venv/bin/python" "$0/rate.py"' "$tmp")
expected="pyroute2, rate=10000000: 80Mbit
pyroute2, rate='10mbit': 10Mbit
tc, rate 10000000: 10Mbit
tc, rate 10mbit: 10Mbit"

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
