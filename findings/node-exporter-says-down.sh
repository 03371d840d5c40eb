#!/bin/sh
# node_exporter says of a vxlan interface that is up that it is not.
#
# Guess:   node_network_up is 1 for each interface that is up and has carrier.
# Package: prometheus-node-exporter 1.5.0-1+b6, iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: it is 1 only where the kernel's operational state is `up`. That of a vxlan interface and of the loopback is
#          `unknown`: they are 0, like one that is down; node_network_carrier is 1.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    prometheus-node-exporter=1.5.0-1+b6 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'ip link add name p1 type vxlan id 1 dstport 4789' 2>/dev/null || skip "no vxlan in this kernel"
alone 'mount -t sysfs none /sys' 2>/dev/null || skip "no sysfs for this user"

cat >"$tmp/ask.py" <<'PYTHON'
import urllib.error
import urllib.request

answer = None
while answer is None:
    try:
        answer = urllib.request.urlopen("http://127.0.0.1:9100/metrics").read().decode()
    except urllib.error.URLError:
        pass
values = dict(line.rsplit(" ", 1) for line in answer.splitlines() if line.startswith("node_network_"))
for name in ("p1", "vx0", "lo", "p3"):
    up, carrier = (
        values.get('node_network_%s{device="%s"}' % (key, name), "absent") for key in ("up", "carrier"))
    print("%s: up %s, carrier %s" % (name, up, carrier))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    mount -t sysfs none /sys
    ip link set lo up
    ip link add name p1 type veth peer name p2
    ip link add name p3 type veth peer name p4
    ip link add name vx0 type vxlan id 1 remote 192.0.2.1 dstport 4789
    for name in p1 p2 vx0; do ip link set "$name" up; done
    until ip link show p1 | grep -q "state UP"; do :; done
    prometheus-node-exporter --collector.disable-defaults --collector.netclass \
        --web.listen-address=127.0.0.1:9100 2>"$0/log" &
    python3 "$0/ask.py"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='p1: up 1, carrier 1
vx0: up 0, carrier 1
lo: up 0, carrier 1
p3: up 0, carrier absent'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
