#!/bin/sh
# The interface counters of net-snmp's agent stand still for a while, however often they are asked for.
#
# Guess:   ifHCOutOctets is the kernel's counter at the time of the question.
# Package: snmpd, snmp 5.9.3+dfsg-2+deb12u1, iproute2 6.1.0-3 (Debian 12).
# Happens: what was sent since the last look at the kernel is missing from the answer, 10,000 of 10,000 bytes here, and
#          comes seconds later. A rate over a short time is nothing, or much too high.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    snmpd=5.9.3+dfsg-2+deb12u1 snmp=5.9.3+dfsg-2+deb12u1 \
    libsnmp40=5.9.3+dfsg-2+deb12u1 libsnmp-base=5.9.3+dfsg-2+deb12u1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/send.py" <<'PYTHON'
import socket

sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("p1", 0))
for _ in range(10):
    sender.send(b"\xff" * 6 + b"\x02\0\0\0\0\x01\x88\xb5" + bytes(986))
PYTHON
echo 'rocommunity public 127.0.0.1' >"$tmp/snmpd.conf"
export SNMP_PERSISTENT_DIR="$tmp" SNMPCONFPATH="$tmp" MIBS='' MIBDIRS="$tmp/root/usr/share/snmp/mibs"

# Nothing else sends: IPv6 is off. A look is fresh when the answer has become what the kernel counts.
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link set lo up
    ip link add name p1 index 10 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    snmpd -f -Le -C -c snmpd.conf -I ifTable,ifXTable,interface,snmp_mib udp:127.0.0.1:1161 2>log &
    asked() {
        snmpget -v2c -c public -t 5 -r 9 -Oqv udp:127.0.0.1:1161 .1.3.6.1.2.1.31.1.1.1.10.10 2>>log || echo none
    }
    fresh() { until [ "$(asked)" = "$1" ]; do :; done; }
    python3 send.py
    fresh 10000
    python3 send.py
    fresh 20000
    python3 send.py
    answer=$(asked)
    kernel=$(ip -s link show p1 | sed -n "/TX:/{n;s/^ *\([0-9]*\).*/\1/p}")
    echo "at once: kernel $kernel, snmpd $answer"
    fresh 30000
    echo "later: snmpd 30000"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='at once: kernel 30000, snmpd 20000
later: snmpd 30000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
