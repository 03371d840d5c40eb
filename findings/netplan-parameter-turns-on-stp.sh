#!/bin/sh
# netplan turns STP on at a bridge for which any other parameter is given.
#
# Guess:   `parameters: {ageing-time: 50}` changes the ageing time of a bridge that otherwise stays as it is.
# Package: netplan.io 0.106-2+deb12u1 (Debian 12), its generator for systemd-networkd.
# Happens: without parameters it writes nothing of STP; with one of them `STP=true`, too, although STP is not in the
#          file. `stp: false` beside it undoes that.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    netplan.io=0.106-2+deb12u1 libnetplan0=0.106-2+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

cd "$tmp"
show() {
    rm -rf etc run
    mkdir -p etc/netplan
    cat >etc/netplan/bridge.yaml <<YAML
network:
  version: 2
  ethernets: {eth0: {}}
  bridges:
    br0:
      interfaces: [eth0]
      $2
YAML
    chmod 600 etc/netplan/bridge.yaml
    "$tmp/root/usr/libexec/netplan/generate" --root-dir "$tmp"
    echo "$1: $(sed -n '/^\[Bridge\]/,$p' run/systemd/network/10-netplan-br0.netdev | sed 1d |
        paste -sd , | sed 's/^$/nothing/')"
}
seen=$(
    show 'no parameters' ''
    show 'ageing-time' 'parameters: {ageing-time: 50}'
    show 'and stp: false' 'parameters: {ageing-time: 50, stp: false}'
)
expected='no parameters: nothing
ageing-time: AgeingTimeSec=50,STP=true
and stp: false: AgeingTimeSec=50,STP=false'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
