#!/bin/sh
# Some of vtysh's JSON is one value for each daemon, one behind the other.
#
# Guess:   `vtysh -c "show ... json"` prints one JSON value.
# Package: frr 8.4.4-1.1~deb12u2 (Debian 12).
# Happens: `show ip prefix-list json` and `show route-map json` print as many objects as there are daemons that know
#          these, which no parser takes at once; with one daemon (`-d bgpd`) it is one. `show ip ospf json` without
#          an OSPF prints nothing at all, with exit code 0.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d -p /tmp)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    'frr=8.4.4-1.1~deb12u2' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PATH=$tmp/root/usr/lib/frr:$PATH
for folder in "$tmp"/root/usr/lib/*-linux-gnu*; do LD_LIBRARY_PATH=$folder:$folder/frr; done
export LD_LIBRARY_PATH
# Where vtysh keeps its history.
export HOME="$tmp"
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

# Its own /etc, /run and /var/tmp, with the user and groups that FRR wants to be.
# shellcheck disable=SC2016
seen=$(alone '
    mount -t tmpfs none /etc
    mount -t tmpfs none /run
    mount -t tmpfs none /var/tmp
    mkdir -p /etc/frr /etc/pam.d /run/frr
    echo "frr:x:0:0::/:/bin/sh" >/etc/passwd
    printf "frr:x:0:\nfrrvty:x:0:frr\n" >/etc/group
    printf "auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n" >/etc/pam.d/frr
    : >/etc/frr/vtysh.conf
    echo "ip prefix-list A permit 10.1.0.0/16" >/etc/frr/bgpd.conf
    : >/etc/frr/ospfd.conf
    zebra --daemon >/dev/null 2>&1
    bgpd --bgp_port 0 --daemon >/dev/null 2>&1
    ospfd --daemon >/dev/null 2>&1
    values() {
        code=0
        vtysh "$@" >/run/answer 2>/dev/null || code=$?
        python3 - "$*" $code <<PYTHON
import json
import sys

text = open("/run/answer").read().strip()
count = 0
while text:
    text = text[json.JSONDecoder().raw_decode(text)[1]:].strip()
    count += 1
print("vtysh %s: %d, exit code %s" % (sys.argv[1], count, sys.argv[2]))
PYTHON
    }
    values -c "show ip route json"
    values -c "show ip prefix-list json"
    values -d bgpd -c "show ip prefix-list json"
    values -c "show route-map json"
    values -c "show ip ospf json"')
expected='vtysh -c show ip route json: 1, exit code 0
vtysh -c show ip prefix-list json: 3, exit code 0
vtysh -d bgpd -c show ip prefix-list json: 1, exit code 0
vtysh -c show route-map json: 3, exit code 0
vtysh -c show ip ospf json: 0, exit code 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
