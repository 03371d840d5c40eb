#!/bin/sh
# netsniff-ng writes frames with a VLAN tag into its files without it.
#
# Guess:   a capture has the frames as they were on the wire, as tcpdump's has.
# Package: netsniff-ng 0.6.8-3, tcpdump 4.99.3-1, iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the kernel takes the tag out of a frame that comes in and says it beside the frame; netsniff-ng does not
#          put it back: a frame of 64 bytes in VLAN 10 is one of 60 bytes in none. Frames that go out keep theirs.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    netsniff-ng=0.6.8-3 tcpdump=4.99.3-1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

[ "$(id -u)" -eq 0 ] || skip "netsniff-ng and tcpdump need root"
alone() { unshare --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/send.py" <<'PYTHON'
import socket

end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
end.bind(("p1", 0))
# Two frames in VLAN 10.
for _ in range(2):
    end.send(bytes.fromhex("020000000002" "020000000001" "8100000a" "88b5") + bytes(46))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p2 up
    ip link set p1 up
    show() {
        tcpdump -n -e -r "$1" 2>said | grep -v "^[^0-9]" | grep -o "ethertype.*" |
            sed "s/(0x88b5)//; s/  */ /g; s/, p 0.*//; s/: *$//" | sort | uniq -c | sed "s/^ *//"
    }
    for interface in p2 p1; do
        tcpdump -Z root -U -n -i "$interface" -w tcpdump.pcap 2>>log &
        first=$!
        netsniff-ng -i "$interface" -o netsniff-ng.pcap -s >>log 2>&1 &
        second=$!
        until [ "$(grep -c "^[0-9a-f]" /proc/net/packet)" -ge 2 ]; do sleep 0.1; done
        sleep 2
        python3 send.py
        sleep 1
        kill -INT "$first" "$second"
        wait
        for program in tcpdump netsniff-ng; do echo "$program at $interface: $(show "$program.pcap")"; done
    done' "$tmp")
expected='tcpdump at p2: 2 ethertype 802.1Q (0x8100), length 64: vlan 10
netsniff-ng at p2: 2 ethertype Unknown , length 60
tcpdump at p1: 2 ethertype 802.1Q (0x8100), length 64: vlan 10
netsniff-ng at p1: 2 ethertype 802.1Q (0x8100), length 64: vlan 10'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
