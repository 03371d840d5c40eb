#!/bin/sh
# In Open vSwitch a port with `tag=10 trunks=20,30` is an access port of VLAN 10, and drops VLANs 20 and 30.
#
# Guess:   it is a trunk of VLANs 20 and 30 whose untagged frames are of VLAN 10.
# Package: openvswitch 3.1.0-2+deb12u1 (Debian 12).
# Happens: with a tag the port is `vlan_mode=access`, and `trunks` is taken and left out of account without a word. With
#          vlan_mode=native-untagged it is what one wants.
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

[ "$(id -u)" -eq 0 ] || skip "ovs-vswitchd needs root"
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
    ovs-vswitchd --enable-dummy=override --disable-system --detach --no-chdir \
        --pidfile=/run/openvswitch/ovs-vswitchd.pid unix:/run/openvswitch/db.sock 2>>log
    ovs-vsctl add-br br0 -- set bridge br0 datapath_type=dummy
    for port in 1 2; do
        ovs-vsctl add-port br0 "p$port" -- set interface "p$port" type=dummy ofport_request="$port"
    done
    ovs-vsctl set port p1 tag=10 trunks=20,30
    trace() {
        ovs-appctl ofproto/trace br0 \
            "in_port=1,$2dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x88b5" >trace
        if grep -q "^Datapath actions: drop" trace; then answer=dropped; else answer=passes; fi
        echo "$mode, $1: $answer"
    }
    for mode in "no vlan_mode" native-untagged; do
        [ "$mode" = "no vlan_mode" ] || ovs-vsctl set port p1 "vlan_mode=$mode"
        trace untagged ""
        trace "VLAN 20" dl_vlan=20,
    done' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='no vlan_mode, untagged: passes
no vlan_mode, VLAN 20: dropped
native-untagged, untagged: passes
native-untagged, VLAN 20: passes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
