#!/bin/sh
# tcpreplay sends frames that were captured in part as they are: short ones, whose IP header promises more.
#
# Guess:   it fills such a frame up to the length that it had, or leaves it out, or says so.
# Package: tcpreplay 4.4.3-1, iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: of a frame of 1042 bytes with 100 in the file, 100 are sent, and count as a success ("Truncated packets:
#          0"). With `--fixlen=pad` tcprewrite makes frames of the old length.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    tcpreplay=4.4.3-1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

[ "$(id -u)" -eq 0 ] || skip "tcpreplay needs root"
alone() { unshare --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/write.py" <<'PYTHON'
import struct

packet = bytes.fromhex("45000404000100004011629f0a0000010a00000203e8000903f00000") + bytes(1000)
frame = bytes.fromhex("0200000000020200000000010800") + packet
with open("cut.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 100, 1))
    file.write(struct.pack("<IIII", 1700000000, 0, 100, len(frame)) + frame[:100])
PYTHON
cat >"$tmp/take.py" <<'PYTHON'
import socket

taker = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
taker.bind(("p2", 0x0800))
print("ready", flush=True)
print(len(taker.recv(2000)), flush=True)
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p2 up
    ip link set p1 up
    python3 write.py
    send() {
        python3 take.py >taken &
        until grep -q ready taken; do :; done
        tcpreplay -i p1 "$2" >said 2>&1 || { cat said; exit 1; }
        wait
        echo "$1: $(sed -n "s/^.*Successful packets: *\([0-9]*\)/successful \1/p; \
            s/^.*Truncated packets: *\([0-9]*\)/truncated \1/p" said | paste -sd ,), $(tail -n 1 taken) bytes arrive"
    }
    send "as it is" cut.pcap
    tcprewrite --fixlen=pad -i cut.pcap -o padded.pcap 2>said
    send "tcprewrite --fixlen=pad" padded.pcap' "$tmp")
expected='as it is: successful 1,truncated 0, 100 bytes arrive
tcprewrite --fixlen=pad: successful 1,truncated 0, 1042 bytes arrive'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
