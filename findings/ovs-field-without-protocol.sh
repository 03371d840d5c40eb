#!/bin/sh
# A flow for one port of TCP becomes a flow for everything when the protocol is not said.
#
# Guess:   `tcp_dst=80,actions=drop` is for TCP, as the field's name says, or is refused.
# Package: openvswitch-common 3.1.0-2+deb12u1 (Debian 12).
# Happens: a field whose protocol the match does not fix is taken out: the flow drops every packet. ovs-ofctl exits with
#          0, and tells of it at the level INFO. `del-flows tcp_dst=80` likewise deletes all flows.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" openvswitch-common=3.1.0-2+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/bin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

# What ovs-ofctl would send: the last line. What it says before, without the time.
flow() {
    code=0
    ovs-ofctl parse-flow "$1" >"$tmp/out" 2>"$tmp/err" || code=$?
    echo "$1: exit code $code, $(tail -n 1 "$tmp/out" | sed 's/.*: ADD/sent: ADD/')"
    sed 's/^[^|]*|[^|]*|/    /' "$tmp/err" | sort -u
}
seen=$(flow 'tcp,tcp_dst=80,actions=drop'; flow 'tcp_dst=80,actions=drop')
expected='tcp,tcp_dst=80,actions=drop: exit code 0, sent: ADD tcp,tp_dst=80 actions=drop
tcp_dst=80,actions=drop: exit code 0, sent: ADD actions=drop
    ofp_match|INFO| pre: tp_dst=80
    ofp_match|INFO|normalization changed ofp_match, details:
    ofp_match|INFO|post: '

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
