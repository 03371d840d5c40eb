#!/bin/sh
# An interface counts frames that no protocol takes as dropped, until somebody captures there.
#
# Guess:   `dropped` is what was lost for want of room; a capture changes no counter of the interface.
# Package: iproute2 6.1.0-3, tcpdump 4.99.3-1 (Debian 12), on Linux 6.18.
# Happens: each frame of an EtherType that nobody takes (LLDP, say, or a lab's own) counts as received and dropped.
#          While tcpdump captures at the interface none does, even if its filter keeps nothing of them.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 tcpdump=4.99.3-1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
command -v python3 >/dev/null || skip "no python3"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/send.py" <<'PYTHON'
import socket

sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("p2", 0))
for _ in range(10):
    sender.send(bytes.fromhex("ffffffffffff02000000000288b5") + bytes(46))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    counters() {
        ip -s link show dev p1 |
            sed -n "/RX:/{n;s/^ *[0-9]* *\([0-9]*\) *[0-9]* *\([0-9]*\).*/\1 received, \2 dropped/p}"
    }
    python3 send.py
    echo "nobody captures: $(counters)"
    : >err
    tcpdump -Z root -p -n -i p1 ip >out 2>err &
    until grep -q "^listening" err; do sleep 0.1; done
    python3 send.py
    echo "tcpdump ip: $(counters)"
    kill "$!"
    wait "$!" || :
    python3 send.py
    echo "nobody captures any more: $(counters)"' "$tmp") || { cat "$tmp/err"; exit 1; }
expected='nobody captures: 10 received, 10 dropped
tcpdump ip: 20 received, 10 dropped
nobody captures any more: 30 received, 20 dropped'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
