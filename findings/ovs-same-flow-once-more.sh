#!/bin/sh
# Adding a flow that is there sets its counters to 0 with OpenFlow 1.0, and keeps them with OpenFlow 1.3.
#
# Guess:   `ovs-ofctl add-flow` and `mod-flows` do the same in each version of the protocol that they speak.
# Package: openvswitch 3.1.0-2+deb12u1 (Debian 12).
# Happens: with OpenFlow 1.0, ovs-ofctl's default, the flow has no packets then, with `-O OpenFlow13` all of before.
#          And `mod-flows` of a flow that is not there adds it with 1.0, and does nothing with 1.3.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    openvswitch-switch=3.1.0-2+deb12u1 openvswitch-common=3.1.0-2+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PATH=$tmp/root/usr/lib/openvswitch-switch:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

[ "$(id -u)" -eq 0 ] || skip "Open vSwitch's own datapath needs root"
[ -c /dev/net/tun ] || skip "no /dev/net/tun"
alone() { unshare --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"

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
    frame=0200000000020200000000010800450000140001000040fd66000a0000010a000002
    for version in OpenFlow10 OpenFlow13; do
        of() { command=$1; shift; ovs-ofctl -O "$version" "$command" br0 "$@" 2>>log; }
        of del-flows
        of add-flow priority=5,ip,actions=drop
        # The same way for each version: the packet comes from the switch itself.
        ovs-ofctl -O OpenFlow10 packet-out br0 "in_port=LOCAL packet=$frame actions=table" 2>>log
        packets() { of dump-flows | sed -n "s/.*n_packets=\([0-9]*\).*/\1/p"; }
        until [ "$(packets)" = 1 ]; do sleep 0.1; done
        of add-flow priority=5,ip,actions=drop
        echo "$version: 1 packet, after the same add-flow $(packets)"
        of mod-flows arp,actions=drop
        echo "$version: $(of dump-flows | grep -c arp) flow(s) by mod-flows"
    done' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='OpenFlow10: 1 packet, after the same add-flow 0
OpenFlow10: 1 flow(s) by mod-flows
OpenFlow13: 1 packet, after the same add-flow 1
OpenFlow13: 0 flow(s) by mod-flows'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
