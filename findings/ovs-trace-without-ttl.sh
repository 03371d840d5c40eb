#!/bin/sh
# `ovs-appctl ofproto/trace` ends at `dec_ttl`, unless the TTL of the packet is said.
#
# Guess:   what is not said of the packet is what a usual packet has, or does not matter to the answer.
# Package: openvswitch-switch 3.1.0-2+deb12u1 (Debian 12), its userspace datapath.
# Happens: it is zero, the TTL, too: for a router's `dec_ttl` the trace ends with a "TTL exception", and shows none of
#          the actions behind it. With nw_ttl=64 they are shown.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    openvswitch-switch=3.1.0-2+deb12u1 openvswitch-common=3.1.0-2+deb12u1 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
PATH=$tmp/root/usr/lib/openvswitch-switch:$PATH
export OVS_RUNDIR="$tmp" OVS_DBDIR="$tmp" OVS_LOGDIR="$tmp" OVS_SYSCONFDIR="$tmp"

# The bridge's own port is a tap, which a user namespace alone does not give.
[ -w /dev/net/tun ] || skip "no right to open /dev/net/tun"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cd "$tmp"
ovsdb-tool create conf.db root/usr/share/openvswitch/vswitch.ovsschema
# shellcheck disable=SC2016
seen=$(alone '
    ovsdb-server conf.db --remote=punix:db.sock --unixctl=db.ctl --detach --no-chdir --pidfile --log-file 2>log
    ovs-vsctl --no-wait init
    ovs-vswitchd unix:db.sock --detach --no-chdir --pidfile --log-file 2>log
    ovs-vsctl -t 20 add-br br -- set bridge br datapath_type=netdev fail_mode=secure
    ovs-ofctl add-flow br ip,nw_dst=10.0.0.0/8,actions=dec_ttl,LOCAL
    show() {
        ovs-appctl ofproto/trace br "in_port=1,ip,nw_dst=10.0.0.1$1" |
            sed -n "/dec_ttl/,/^\$/{s/^ *//;/./p}" | paste -sd " "
    }
    echo "without nw_ttl: $(show "")"
    echo "with nw_ttl=64: $(show ,nw_ttl=64)"') || { cat log; exit 1; }
expected='without nw_ttl: dec_ttl >> IPv4 decrement TTL exception
with nw_ttl=64: dec_ttl LOCAL'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
