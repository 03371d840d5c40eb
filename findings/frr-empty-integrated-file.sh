#!/bin/sh
# An empty /etc/frr/frr.conf makes FRR's daemons ignore their own files.
#
# Guess:   bgpd reads bgpd.conf; an empty frr.conf adds nothing, and `no service integrated-vtysh-config` in vtysh.conf
#          says that each daemon has its own file.
# Package: frr 8.4.4-1.1~deb12u2 (Debian 12).
# Happens: that frr.conf exists is enough: bgpd starts without its configuration and says nothing. vtysh.conf changes
#          nothing in this. Debian's package installs a frr.conf, so a lab's bgpd.conf laid beside it has no effect.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d -p /tmp)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" 'frr=8.4.4-1.1~deb12u2' >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/lib/frr:$tmp/root/usr/bin:$PATH
for folder in "$tmp"/root/usr/lib/*-linux-gnu*; do LD_LIBRARY_PATH=$folder:$folder/frr; done
export LD_LIBRARY_PATH
# Where vtysh keeps its history.
export HOME="$tmp"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# All processes end with the first one of their own process namespace.
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

# Each time with its own /etc and /run, and with the user and groups that FRR wants to be.
try() {
    # shellcheck disable=SC2016
    alone '
        mount -t tmpfs none /etc
        mount -t tmpfs none /run
        mount -t tmpfs none /var/tmp
        mkdir -p /etc/frr /etc/pam.d /run/frr
        echo "frr:x:0:0::/:/bin/sh" >/etc/passwd
        printf "frr:x:0:\nfrrvty:x:0:frr\n" >/etc/group
        printf "auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n" >/etc/pam.d/frr
        printf "router bgp 65001\n bgp router-id 192.0.2.1\n" >/etc/frr/bgpd.conf
        : >/etc/frr/vtysh.conf
        eval "$2"
        bgpd --no_zebra --bgp_port 0 --daemon >/dev/null 2>&1
        echo "$1: $(vtysh -d bgpd -c "show running-config" | grep -c "^router bgp 65001") \"router bgp 65001\""
    ' sh "$1" "$2"
}
seen=$(
    try 'bgpd.conf alone' :
    try 'beside an empty frr.conf' ': >/etc/frr/frr.conf'
    try 'beside it, not integrated' \
        ': >/etc/frr/frr.conf; echo "no service integrated-vtysh-config" >/etc/frr/vtysh.conf'
)
expected='bgpd.conf alone: 1 "router bgp 65001"
beside an empty frr.conf: 0 "router bgp 65001"
beside it, not integrated: 0 "router bgp 65001"'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
