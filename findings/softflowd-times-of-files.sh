#!/bin/sh
# softflowd gives the flows of a capture file other times than the file has, by the version of NetFlow.
#
# Guess:   `softflowd -r FILE` exports flows with the times of the file, which nfdump shows, in NetFlow 5, 9 and IPFIX.
# Package: softflowd 1.1.0-1+b1, nfdump 1.7.1-2+deb12u1 (Debian 12).
# Happens: version 5 is right for a file of an hour ago, and gives one of 2023 a later time. Version 9 and
#          IPFIX put the flows of both into the future.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    softflowd=1.1.0-1+b1 nfdump=1.7.1-2+deb12u1 >"$tmp/apt" 2>&1 ||
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

# One UDP packet, seen the given number of seconds after 1970.
cat >"$tmp/write.py" <<'PYTHON'
import struct
import sys

packet = bytes.fromhex("4500001d0001000040110000" "0a000001" "0a000002" "03e800350009000078")
frame = bytes.fromhex("0200000000020200000000010800") + packet + bytes(17)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    file.write(struct.pack("<IIII", int(sys.argv[2]), 0, len(frame), len(frame)) + frame)
PYTHON

export TZ=UTC
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    # what the kernel says of UDP port 9995
    socket() { grep -i ":270B " /proc/net/udp; }
    show() {
        python3 write.py file.pcap "$3"
        mkdir flows
        nfcapd -l flows -p 9995 -b 127.0.0.1 >log 2>&1 &
        until socket >/dev/null; do :; done
        softflowd -d -r file.pcap -n 127.0.0.1:9995 -v "$2" >>log 2>&1
        # It has what came when nothing waits and it does.
        until socket | grep -q " 07 00000000:00000000 " && grep -q "^State:.S" "/proc/$!/status"; do :; done
        kill "$!"
        wait "$!"
        start=$(nfdump -R flows -q -o "fmt:%ts" | sed "s/[.].*//")
        rm -r flows
        start=$(date -d "$start" +%s)
        if [ "$start" -gt "$(date +%s)" ]; then found="in the future"
        elif [ "$start" -gt $(($3 + 2)) ]; then found="too late"
        elif [ "$start" -ge $(($3 - 2)) ]; then found=right
        else found="too early"; fi
        echo "$1, of $4: $found"
    }
    for version in "NetFlow 5" "NetFlow 9" "IPFIX 10"; do
        show "${version%" 10"}" "${version##* }" $(($(date +%s) - 3600)) "an hour ago"
        show "${version%" 10"}" "${version##* }" 1700000000 2023
    done' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='NetFlow 5, of an hour ago: right
NetFlow 5, of 2023: too late
NetFlow 9, of an hour ago: in the future
NetFlow 9, of 2023: in the future
IPFIX, of an hour ago: in the future
IPFIX, of 2023: in the future'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
