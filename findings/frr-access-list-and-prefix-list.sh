#!/bin/sh
# FRR's `access-list A permit 10.0.0.0/8` is for all prefixes within; in a prefix list it is that one.
#
# Guess:   one line of prefix matches the same in both kinds of list.
# Package: frr 8.4.4-1.1~deb12u2 (Debian 12).
# Happens: the access list matches 10.1.0.0/16, too, unless the line ends with `exact-match`; the prefix list needs
#          `le 32` for that. Who changes `match ip address A` into `match ip address prefix-list A` loses routes.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
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
    cat >/etc/frr/bgpd.conf <<CONF
access-list A permit 10.0.0.0/8
access-list EXACT permit 10.0.0.0/8 exact-match
ip prefix-list P permit 10.0.0.0/8
ip prefix-list LE permit 10.0.0.0/8 le 32
route-map ACCESS permit 10
 match ip address A
route-map EXACT permit 10
 match ip address EXACT
route-map PREFIX permit 10
 match ip address prefix-list P
route-map LE permit 10
 match ip address prefix-list LE
router bgp 65001
 bgp router-id 192.0.2.1
 no bgp network import-check
 address-family ipv4 unicast
  network 10.0.0.0/8
  network 10.1.0.0/16
  network 192.0.2.0/24
CONF
    bgpd --no_zebra --bgp_port 0 --daemon >/dev/null 2>&1
    show() {
        found=$(vtysh -d bgpd -c "show bgp ipv4 unicast $2" | sed -n "s/^[*]> *\([0-9./]*\) .*/\1/p" | paste -sd " ")
        echo "$1: $found"
    }
    until show all "" | grep -q 192.0.2.0/24; do sleep 0.1; done
    show "access-list permit 10.0.0.0/8" "route-map ACCESS"
    show "access-list permit 10.0.0.0/8 exact-match" "route-map EXACT"
    show "prefix-list permit 10.0.0.0/8" "route-map PREFIX"
    show "prefix-list permit 10.0.0.0/8 le 32" "route-map LE"')
expected='access-list permit 10.0.0.0/8: 10.0.0.0/8 10.1.0.0/16
access-list permit 10.0.0.0/8 exact-match: 10.0.0.0/8
prefix-list permit 10.0.0.0/8: 10.0.0.0/8
prefix-list permit 10.0.0.0/8 le 32: 10.0.0.0/8 10.1.0.0/16'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
