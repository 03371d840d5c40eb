#!/bin/sh
# `ageing_time 300` of a bridge is three seconds, not five minutes.
#
# Guess:   seconds: the manual page of `ip link` says so, and 300 is the usual time of a switch.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the number goes to the kernel as it is, in hundredths of a second (the default shows as 30000): a learnt
#          address is gone before ten seconds are over. `hello_time 2` is refused, ageing_time takes any number.
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

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
command -v python3 >/dev/null || skip "no python3"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'ip link add name br0 type bridge' 2>/dev/null || skip "no bridge in this kernel"

cat >"$tmp/send.py" <<'PYTHON'
import socket

sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("p2", 0))
sender.send(bytes.fromhex("ffffffffffff02000000000288b5") + bytes(46))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    ip link add name p1 type veth peer name p2
    for ageing in "" "ageing_time 300"; do
        # shellcheck disable=SC2086
        ip link add name br0 type bridge $ageing
        ip link set p1 master br0
        for name in br0 p1 p2; do ip link set "$name" up; done
        learnt() { bridge fdb show br br0 | grep -c 02:00:00:00:00:02 || :; }
        python3 "$0"
        echo "$(ip -d link show dev br0 | grep -o "ageing_time [0-9]*"): $(learnt) learnt"
        sleep 10
        echo "ten seconds later: $(learnt) learnt"
        ip link del br0
    done
    answer=$(ip link add name br0 type bridge hello_time 2 2>&1) || echo "hello_time 2: $answer"' "$tmp/send.py")
expected='ageing_time 30000: 1 learnt
ten seconds later: 1 learnt
ageing_time 300: 1 learnt
ten seconds later: 0 learnt
hello_time 2: RTNETLINK answers: Numerical result out of range'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
