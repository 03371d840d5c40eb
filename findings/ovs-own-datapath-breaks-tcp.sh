#!/bin/sh
# Open vSwitch's own datapath passes a ping between two veth ends, and no TCP.
#
# Guess:   what a switch of frames does for ICMP it does for TCP.
# Package: openvswitch 3.1.0-2+deb12u1, iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1, ethtool 1:6.1-1 (Debian
#          12), on Linux 6.18.
# Happens: a node leaves the TCP checksum of a veth to the interface behind, and `datapath_type=netdev` (the one that
#          needs no kernel module) sends on what it reads: the other node drops each segment, and no connection comes
#          about until `ethtool -K tx off` in the nodes.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    openvswitch-switch=3.1.0-2+deb12u1 openvswitch-common=3.1.0-2+deb12u1 iproute2=6.1.0-3 \
    'iputils-ping=3:20221126-1+deb12u1' 'ethtool=1:6.1-1' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PATH=$tmp/root/usr/lib/openvswitch-switch:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

[ "$(id -u)" -eq 0 ] || skip "Open vSwitch's own datapath needs root"
[ -c /dev/net/tun ] || skip "no /dev/net/tun"
alone() { unshare --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"

cat >"$tmp/connect.py" <<'PYTHON'
import socket

with socket.socket() as client:
    client.settimeout(3)
    try:
        client.connect(("10.0.0.2", 7000))
        print("connected")
    except socket.timeout:
        print("no connection in 3 s")
PYTHON
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    mount -t tmpfs none /run
    mkdir -p /run/openvswitch
    cd "$0"
    export OVS_RUNDIR=/run/openvswitch OVS_LOGDIR=/run OVS_DBDIR=/run OVS_SYSCONFDIR=/run
    ovsdb-tool create /run/conf.db "$0/root/usr/share/openvswitch/vswitch.ovsschema"
    ovsdb-server --detach --no-chdir --pidfile=/run/db.pid --remote=punix:/run/openvswitch/db.sock /run/conf.db 2>>log
    ovs-vsctl --no-wait init
    ovs-vswitchd --detach --no-chdir --pidfile=/run/vs.pid unix:/run/openvswitch/db.sock 2>>log
    ovs-vsctl add-br br0 -- set bridge br0 datapath_type=netdev protocols=OpenFlow10,OpenFlow13
    for number in 1 2; do
        unshare --net sh -c "echo there; exec sleep 300" >ready &
        read -r there <ready
        eval "node$number=$!"
        ip link add name "p$number" type veth peer name "q$number" netns "$!"
        ip link set "p$number" up
        nsenter --target "$!" --net ip link set "q$number" up
        nsenter --target "$!" --net ip addr add "10.0.0.$number/24" dev "q$number"
        ovs-vsctl add-port br0 "p$number"
    done
    first() { nsenter --target "$node1" --net "$@"; }
    second() { nsenter --target "$node2" --net "$@"; }
    second python3 -c "
import socket
server = socket.create_server((\"10.0.0.2\", 7000))
while True:
    server.accept()" &
    until second ss -tln | grep -q :7000; do sleep 0.1; done
    until first ping -q -c 1 -W 1 10.0.0.2 >>log; do :; done
    echo "ping: $(first ping -q -c 3 -i 0.2 10.0.0.2 | sed -n "s/.* \([0-9]* received\).*/\1/p")"
    echo "TCP: $(first python3 connect.py)"
    first ethtool -K q1 tx off >>log
    second ethtool -K q2 tx off >>log
    echo "TCP without the offload: $(first python3 connect.py)"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='ping: 3 received
TCP: no connection in 3 s
TCP without the offload: connected'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
