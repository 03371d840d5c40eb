#!/bin/sh
# An XDP program at a veth end that sends frames back (XDP_TX) sends them nowhere, unless the other end has one, too.
#
# Guess:   a verdict of XDP_TX at p2 brings each frame back to p1, as at a network card.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: in native mode the frames are dropped, and count as such at the end that answers, until p1 has an XDP program
#          of its own, be it one that passes everything. In generic mode all of them come back.
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

[ "$(id -u)" -eq 0 ] || skip "BPF programs need root"
alone() { unshare --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
command -v python3 >/dev/null || skip "no python3"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/answer.py" <<'PYTHON'
import ctypes
import os
import platform
import select
import socket
import struct
import sys

NUMBERS = {"x86_64": 321, "aarch64": 280}
NATIVE, GENERIC = 4, 2
XDP_PASS, XDP_TX = 2, 3
libc = ctypes.CDLL(None, use_errno=True)

def bpf(command, attributes):
    data = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    done = libc.syscall(NUMBERS[platform.machine()], command, data, len(data))
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done

licence = ctypes.create_string_buffer(b"GPL")

def attach(name, verdict, mode):
    # r0 = verdict; exit. BPF_PROG_LOAD of type BPF_PROG_TYPE_XDP, then BPF_LINK_CREATE at the hook BPF_XDP.
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, verdict, 0x95, 0, 0, 0))
    program = bpf(5, struct.pack("<IIQQ", 6, 2, ctypes.addressof(code), ctypes.addressof(licence)))
    return bpf(28, struct.pack("<IIII", program, socket.if_nametoindex(name), 37, mode))

def dropped():
    with open("/proc/net/dev") as file:
        return next(int(line.split()[12]) for line in file if line.strip().startswith("p2:"))

def show(title):
    near = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
    near.bind(("p1", 0x88B5))
    before = dropped()
    for _ in range(10):
        near.send(bytes.fromhex("02000000000202000000000188b5") + bytes(46))
    back = 0
    while select.select([near], [], [], 2)[0]:
        back += len(near.recv(2000)) == 60
    print("%s: %d of 10 back, %d dropped" % (title, back, dropped() - before))
    near.close()

try:
    answering = attach("p2", XDP_TX, NATIVE)
except (OSError, KeyError) as error:
    print("not runnable here: no XDP program at a veth end: %s" % error)
    sys.exit(77)
show("native")
passing = attach("p1", XDP_PASS, NATIVE)
show("native, a program at the other end")
os.close(passing)
os.close(answering)
attach("p2", XDP_TX, GENERIC)
show("generic")
PYTHON
code=0
# shellcheck disable=SC2016
seen=$(alone '
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    python3 "$0"' "$tmp/answer.py") || code=$?
[ "$code" -eq 0 ] || { echo "$seen"; exit "$code"; }
expected='native: 0 of 10 back, 10 dropped
native, a program at the other end: 10 of 10 back, 0 dropped
generic: 10 of 10 back, 0 dropped'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
