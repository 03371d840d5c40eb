#!/bin/sh
# tcpdump's `ether proto 0x8100` matches tagged frames in a file, and none of them at the interface.
#
# Guess:   one filter keeps the same frames at the interface and of a file that was captured there.
# Package: tcpdump 4.99.3-1, iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the kernel takes the tag out of a frame that comes in before the filter sees it, and tcpdump puts it back
#          for the file. So `ether proto 0x8100` and `ether[12:2] = 0x8100` find tagged frames in the file alone, and
#          the protocol behind the tag is found at the interface alone. `vlan` finds them in both.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    tcpdump=4.99.3-1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

# It gives up its rights for another user, which a user namespace alone does not let it do.
[ "$(id -u)" -eq 0 ] || skip "tcpdump needs root"
alone() { unshare --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/send.py" <<'PYTHON'
import socket

end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
end.bind(("p1", 0))
# In VLAN 10, then a frame without a tag that ends the capture.
end.send(bytes.fromhex("020000000002" "020000000001" "8100000a" "88b5") + bytes(46))
end.send(bytes.fromhex("020000000002" "020000000001" "88b6") + bytes(46))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p2 up
    ip link set p1 up
    : >said
    count() { tcpdump -r "$1" --count "$2" 2>/dev/null | sed "s/ packet.*//"; }
    # capture FILTER: how many tagged frames are kept
    capture() {
        tcpdump -Z root -U -n -i p2 -c 1 -w live "$1 or ether proto 0x88b6" 2>said &
        until grep -q listening said; do :; done
        python3 send.py
        wait
        count live vlan
    }
    tcpdump -Z root -U -n -i p2 -c 2 -w file 2>said &
    until grep -q listening said; do :; done
    python3 send.py
    wait
    for filter in "ether proto 0x8100" "ether[12:2] = 0x8100" "ether proto 0x88b5" vlan; do
        echo "$filter: $(capture "$filter") live, $(count file "$filter") of the file"
    done' "$tmp")
expected='ether proto 0x8100: 0 live, 1 of the file
ether[12:2] = 0x8100: 0 live, 1 of the file
ether proto 0x88b5: 1 live, 0 of the file
vlan: 1 live, 1 of the file'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
