#!/bin/sh
# Open vSwitch numbers ports that are added together in an order of its own.
#
# Guess:   `ovs-vsctl add-port br s1 -- add-port br s2 -- add-port br s3` gives OpenFlow ports 1, 2 and 3.
# Package: openvswitch-switch 3.1.0-2+deb12u1 (Debian 12), its userspace datapath.
# Happens: s1 is 1, s3 is 2 and s2 is 3: ports of one transaction are numbered in the order of a hash of their names.
#          Flows written for in_port=2 meet the wrong interface. Added by one call each, they are 1, 2 and 3; or
#          `-- set interface s2 ofport_request=2` says which.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" openvswitch-switch=3.1.0-2+deb12u1 \
    openvswitch-common=3.1.0-2+deb12u1 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/lib/openvswitch-switch:$tmp/root/usr/sbin:$tmp/root/usr/bin:$tmp/root/bin:$tmp/root/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH OVS_RUNDIR="$tmp" OVS_DBDIR="$tmp" OVS_LOGDIR="$tmp" OVS_SYSCONFDIR="$tmp"

# The bridge's own port is a tap, which a user namespace alone does not give.
[ -w /dev/net/tun ] || skip "no right to open /dev/net/tun"
user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# All processes end with the first one of their own process namespace.
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name s1 type veth peer name h1' 2>/dev/null || skip "no veth in this kernel"

ovsdb-tool create "$tmp/conf.db" "$tmp/root/usr/share/openvswitch/vswitch.ovsschema"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$OVS_RUNDIR"
    for port in s1 s2 s3; do ip link add name "$port" type veth peer name "far-$port"; done
    ovsdb-server conf.db --remote=punix:db.sock --unixctl=db.ctl --detach --no-chdir --pidfile --log-file 2>log
    ovs-vsctl --no-wait init
    ovs-vswitchd unix:db.sock --detach --no-chdir --pidfile --log-file 2>log
    numbers() { for port in s1 s2 s3; do echo "$port $(ovs-vsctl get interface "$port" ofport)"; done | paste -sd ,; }

    ovs-vsctl -t 20 add-br br -- set bridge br datapath_type=netdev
    ovs-vsctl -t 20 add-port br s1 -- add-port br s2 -- add-port br s3
    echo "together: $(numbers)"
    ovs-vsctl -t 20 del-br br
    ovs-vsctl -t 20 add-br br -- set bridge br datapath_type=netdev
    for port in s1 s2 s3; do ovs-vsctl -t 20 add-port br "$port"; done
    echo "one by one: $(numbers)"') || { cat "$tmp/log"; exit 1; }
expected='together: s1 1,s2 3,s3 2
one by one: s1 1,s2 2,s3 3'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
