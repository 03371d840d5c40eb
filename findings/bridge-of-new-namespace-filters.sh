#!/bin/sh
# In a new network namespace a bridge's frames go through the rules for IP, though they do not where it was made.
#
# Guess:   bridge-nf-call-iptables 0 holds for namespaces that are made from there, or their bridges never ask the
#          rules for IP.
# Package: iproute2 6.1.0-3, nftables 1.0.6-2+deb12u2, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: where the kernel has br_netfilter each new namespace begins with 1: a chain of family ip at `forward` that
#          drops ends the traffic of a bridge, which does not route, and frames leave the bridge without their padding.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 nftables=1.0.6-2+deb12u2 'iputils-ping=3:20221126-1+deb12u1' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name br0 type bridge; nft add table ip t; ls /proc/sys/net/bridge/bridge-nf-call-iptables' \
    >"$tmp/try" 2>&1 || skip "no bridge, no nf_tables or no br_netfilter in this kernel"

cat >"$tmp/send.py" <<'PYTHON'
import socket

ends = []
for name in ("p1", "p2"):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    end.bind((name, 0x0800))
    ends.append(end)
PACKET = bytes.fromhex("4500001c00010000401166ce" "0a000001" "0a000002" "0009000900080000")
ends[1].settimeout(1)
ends[0].send(bytes.fromhex("020000000002" "020000000001" "0800") + PACKET + bytes(18))
try:
    while PACKET not in (frame := ends[1].recv(2048)):
        pass
    print("%d bytes arrive" % len(frame))
except socket.timeout:
    print("nothing arrives")
PYTHON
cat >"$tmp/attempt" <<'SCRIPT'
cd "${0%/*}"
ls /proc/sys/net/ipv6 >/dev/null 2>&1 && echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
ip link add name br0 type bridge
for number in 1 2; do
    ip link add name "p$number" type veth peer name "q$number"
    ip link set "q$number" master br0
    ip link set "q$number" up
    ip link set "p$number" up
done
ip link set br0 up
nft "add table ip t; add chain ip t c { type filter hook forward priority 0; }"
echo "$1: bridge-nf-call-iptables $(cat /proc/sys/net/bridge/bridge-nf-call-iptables)"
echo "$1, 60 bytes sent: $(python3 send.py)"
nft "add chain ip t c { policy drop; }"
echo "$1, policy drop: $(python3 send.py)"
SCRIPT
# shellcheck disable=SC2016
seen=$(alone '
    echo 0 >/proc/sys/net/bridge/bridge-nf-call-iptables
    unshare --net sh -eu "$0" "made from here"
    sh -eu "$0" "here"' "$tmp/attempt")
expected='made from here: bridge-nf-call-iptables 1
made from here, 60 bytes sent: 42 bytes arrive
made from here, policy drop: nothing arrives
here: bridge-nf-call-iptables 0
here, 60 bytes sent: 60 bytes arrive
here, policy drop: 60 bytes arrive'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
