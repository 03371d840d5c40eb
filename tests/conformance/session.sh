#!/bin/sh
# One run of cases in the namespaces of its own that the caller has made: two switches joined by three links, both
# controlled by the launcher, which runs the cases and ends. All that was started ends with the PID namespace.
#
#   session.sh FOLDER TARGET ASSISTANT VERSION LAUNCHER...
#
# TARGET and ASSISTANT are `ovs` or `own`, VERSION is 1.0 or 1.3. Files go to FOLDER, where target.sh and assistant.sh
# start switches of our own.
set -eu

folder=$1 target=$2 assistant=$3 version=$4
shift 4
controller=tcp:127.0.0.1:6653
switches=

# Port N of the target is joined to port N of the assistant. Only the tests' frames are to pass.
links() {
    ip link set lo up
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    for number in 1 2 3; do
        ip link add "target$number" type veth peer name "assistant$number"
        ip link set "target$number" up
        ip link set "assistant$number" up
    done
}

ovs_daemons() {
    [ ! -S "$folder/db.sock" ] || return 0
    export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
    ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server "$folder/conf.db" --remote="punix:$folder/db.sock" 2>"$folder/ovsdb.log" &
    until [ -S "$folder/db.sock" ]; do kill -0 $!; sleep 0.02; done
    ovs-vsctl --no-wait --db="unix:$folder/db.sock" init
    ovs-vswitchd "unix:$folder/db.sock" --disable-system 2>"$folder/vswitchd.log" &
    switches="$switches $!"
}

# ovs NAME DATAPATH-ID VERSION
ovs() {
    ovs_daemons
    # The controller comes last: the first case begins when both switches are connected.
    ovs-vsctl --timeout=60 --db="unix:$folder/db.sock" \
        add-br "$1" -- set bridge "$1" datapath_type=netdev fail-mode=secure "protocols=OpenFlow1${3#1.}" \
        "other-config:datapath-id=000000000000000$2" -- \
        add-port "$1" "${1}1" -- set interface "${1}1" ofport_request=1 -- \
        add-port "$1" "${1}2" -- set interface "${1}2" ofport_request=2 -- \
        add-port "$1" "${1}3" -- set interface "${1}3" ofport_request=3
    ovs-vsctl --timeout=60 --db="unix:$folder/db.sock" \
        set-controller "$1" "$controller" -- set controller "$1" connection_mode=out-of-band max_backoff=1000
}

# own NAME DATAPATH-ID VERSION
own() {
    NETLOOM_OWN_SWITCH=$(printf \
        '{"name":"%s","folder":"%s","datapath":%s,"versions":["%s"],"fail":"secure","ports":["%s1","%s2","%s3"],%s}' \
        "$1" "$folder" "$2" "$3" "$1" "$1" "$1" "\"controllers\":[\"$controller\"]") \
        sh "$folder/$1.sh" >"$folder/$1.log" 2>&1 &
    switches="$switches $!"
}

links
"$@" >"$folder/launcher.log" 2>&1 &
launcher=$!
# Switches that find nobody wait longer and longer before they try again.
until grep -q ':19FD 00000000:0000 0A' /proc/net/tcp; do kill -0 "$launcher"; sleep 0.02; done
"$assistant" assistant 2 1.3
"$target" target 1 "$version"
while kill -0 "$launcher" 2>/dev/null; do
    for switch in $switches; do kill -0 "$switch"; done
    sleep 0.1
done
wait "$launcher"
