#!/bin/sh
# In OS-Ken a request to delete all flows deletes none, unless it says "any port" and "any group".
#
# Guess:   OFPFlowMod(command=OFPFC_DELETE, table_id=OFPTT_ALL, match=OFPMatch()) deletes all flows: what is not given
#          does not restrict it, as buffer_id, which is OFP_NO_BUFFER by default.
# Package: os-ken 4.2.2 (PyPI), openvswitch-switch 3.1.0-2+deb12u1 (Debian 12).
# Happens: out_port and out_group are 0 by default, not OFPP_ANY and OFPG_ANY: only flows that output to port 0 are
#          meant, and there are none. The switch answers no error. With OFPP_ANY and OFPG_ANY all go.
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
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
LD_LIBRARY_PATH='' "$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps os-ken==4.2.2 idna==3.20 \
    netaddr==1.3.0 oslo.config==10.7.0 packaging==26.4 pbr==7.1.3 rfc3986==2.0.0 setuptools==65.5.0 stevedore==5.10.0 \
    >"$tmp/pip" 2>&1 || skip "$(tail -n 1 "$tmp/pip")"

# The bridge's own port is a tap, which a user namespace alone does not give.
[ -w /dev/net/tun ] || skip "no right to open /dev/net/tun"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cd "$tmp"
cat >delete.py <<'PYTHON'
import socket
import sys

from os_ken.ofproto import ofproto_v1_3 as of, ofproto_v1_3_parser as parser

class Switch:
    ofproto, ofproto_parser = of, parser

which = {"any": {"out_port": of.OFPP_ANY, "out_group": of.OFPG_ANY}, "default": {}}[sys.argv[1]]
request = parser.OFPFlowMod(Switch, table_id=of.OFPTT_ALL, command=of.OFPFC_DELETE, match=parser.OFPMatch(), **which)
request.serialize()
# A greeting, the request, and a barrier, whose answer says that the request is done.
switch = socket.socket(socket.AF_UNIX)
switch.connect("br.mgmt")
switch.sendall(bytes.fromhex("0400000800000001") + request.buf + bytes.fromhex("0414000800000002"))
kinds, stream = [], switch.makefile("rb")
while of.OFPT_BARRIER_REPLY not in kinds:
    header = stream.read(8)
    stream.read(int.from_bytes(header[2:4], "big") - 8)
    kinds.append(header[1])
if of.OFPT_ERROR in kinds:
    print("an error is answered")
PYTHON
ovsdb-tool create conf.db root/usr/share/openvswitch/vswitch.ovsschema
# shellcheck disable=SC2016
seen=$(alone '
    ovsdb-server conf.db --remote=punix:db.sock --unixctl=db.ctl --detach --no-chdir --pidfile --log-file 2>log
    ovs-vsctl --no-wait init
    ovs-vswitchd unix:db.sock --detach --no-chdir --pidfile --log-file 2>log
    ovs-vsctl -t 20 add-br br -- set bridge br datapath_type=netdev fail_mode=secure protocols=OpenFlow13
    for ports in default any; do
        ovs-ofctl -O OpenFlow13 add-flow br ip,nw_dst=10.0.0.0/8,actions=output:2
        LD_LIBRARY_PATH= venv/bin/python delete.py "$ports" 2>>log
        echo "$ports: $(ovs-ofctl -O OpenFlow13 dump-flows br | grep -c nw_dst) of 1 flow is left"
    done') || { cat log; exit 1; }
expected='default: 1 of 1 flow is left
any: 0 of 1 flow is left'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
