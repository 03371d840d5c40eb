#!/bin/sh
# vde_switch forwards frames that no bridge may forward; Open vSwitch and the Linux bridge drop them.
#
# Guess:   01:80:c2:00:00:00 to 0f (STP, LACP, 802.1X, LLDP) end at each bridge, as IEEE 802.1D, section 7.12.6, has it.
# Package: vde-switch 2.3.2+r586-8+b1, vdeplug 4.0.1-4, openvswitch 3.1.0-2+deb12u1, iproute2 6.1.0-3 (Debian 12), on
#          Linux 6.18.
# Happens: vde_switch floods them like a broadcast, so LACP or LLDP of two nodes pass it as if there were a cable, and
#          with another switch they do not. STP's address, :00, passes a bridge of the kernel that does not speak STP
#          itself; :21 is not reserved, and passes all.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    vde-switch=2.3.2+r586-8+b1 vdeplug=4.0.1-4 openvswitch-switch=3.1.0-2+deb12u1 \
    openvswitch-common=3.1.0-2+deb12u1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PATH=$tmp/root/usr/lib/openvswitch-switch:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

[ "$(id -u)" -eq 0 ] || skip "ovs-vswitchd needs root"
alone() { unshare --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
command -v python3 >/dev/null || skip "no python3"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'ip link add name br0 type bridge' 2>/dev/null || skip "no bridge in this kernel"

cd "$tmp"
cat >vde.py <<'PYTHON'
import select
import struct
import subprocess
import sys

def send(plug, target, mark):
    frame = bytes.fromhex(target) + bytes.fromhex("02000000000188b5") + bytes([mark]) * 46
    plug.stdin.write(struct.pack("!H", len(frame)) + frame)
    plug.stdin.flush()

def receive(plug):
    return plug.stdout.read(struct.unpack("!H", plug.stdout.read(2))[0])

one, two = (subprocess.Popen(["vde_plug", "switch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in "12")
# Broadcasts until the first one arrives: then both are at the switch. Another one goes behind each frame.
send(one, "ffffffffffff", 0)
while not select.select([two.stdout], [], [], 0.1)[0]:
    send(one, "ffffffffffff", 0)
for target in sys.argv[1:]:
    send(one, target, 1)
    send(one, "ffffffffffff", 2)
    marks = []
    while 2 not in marks:
        marks.append(receive(two)[14])
    print("vde_switch, %s: %s" % (target, "passes" if 1 in marks else "dropped"))
PYTHON
cat >bridge.py <<'PYTHON'
import socket
import sys

def packets(name):
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
    opened.bind((name, 0x88B5))
    return opened

one, two = packets("p2"), packets("q2")
for target in sys.argv[1:]:
    for mark, to in ((1, target), (2, "ffffffffffff")):
        one.send(bytes.fromhex(to) + bytes.fromhex("02000000000188b5") + bytes([mark]) * 46)
    marks = []
    while 2 not in marks:
        marks.append(two.recv(2000)[14])
    print("Linux bridge, %s: %s" % (target, "passes" if 1 in marks else "dropped"))
PYTHON
# The switches and the plugs end with the first process of their own process namespace.
# shellcheck disable=SC2016
seen=$(alone '
    set -- 0180c2000000 0180c2000002 0180c200000e 0180c2000021
    vde_switch --sock switch --daemon >log 2>&1
    until [ -S switch/ctl ]; do sleep 0.1; done
    python3 vde.py "$@"
    ip link add name br0 type bridge
    for port in p q; do
        ip link add name "${port}1" type veth peer name "${port}2"
        ip link set "${port}1" master br0
    done
    for name in p1 p2 q1 q2 br0; do ip link set "$name" up; done
    until [ "$(bridge link show | grep -c "state forwarding")" -eq 2 ]; do sleep 0.1; done
    python3 bridge.py "$@"
    mount -t tmpfs none /run
    mkdir -p /run/openvswitch
    export OVS_RUNDIR=/run/openvswitch OVS_LOGDIR=/run OVS_DBDIR=/run OVS_SYSCONFDIR=/run
    ovsdb-tool create /run/conf.db root/usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server --detach --no-chdir --pidfile=/run/db.pid --remote=punix:/run/openvswitch/db.sock /run/conf.db 2>>log
    ovs-vsctl --no-wait init
    ovs-vswitchd --enable-dummy=override --disable-system --detach --no-chdir \
        --pidfile=/run/openvswitch/ovs-vswitchd.pid unix:/run/openvswitch/db.sock 2>>log
    ovs-vsctl add-br br1 -- set bridge br1 datapath_type=dummy
    for port in 1 2; do
        ovs-vsctl add-port br1 "o$port" -- set interface "o$port" type=dummy ofport_request="$port"
    done
    for target; do
        to=$(echo "$target" | sed "s/\(..\)/\1:/g;s/:$//")
        ovs-appctl ofproto/trace br1 "in_port=1,dl_src=02:00:00:00:00:01,dl_dst=$to,dl_type=0x88b5" >trace
        if grep -q "^Datapath actions: drop" trace; then answer=dropped; else answer=passes; fi
        echo "Open vSwitch, $target: $answer"
    done') || { cat log; exit 1; }
expected='vde_switch, 0180c2000000: passes
vde_switch, 0180c2000002: passes
vde_switch, 0180c200000e: passes
vde_switch, 0180c2000021: passes
Linux bridge, 0180c2000000: passes
Linux bridge, 0180c2000002: dropped
Linux bridge, 0180c200000e: dropped
Linux bridge, 0180c2000021: passes
Open vSwitch, 0180c2000000: dropped
Open vSwitch, 0180c2000002: dropped
Open vSwitch, 0180c200000e: dropped
Open vSwitch, 0180c2000021: passes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
