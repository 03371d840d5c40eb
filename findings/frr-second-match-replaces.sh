#!/bin/sh
# A second `match` line of the same kind in an FRR route map takes the place of the first one.
#
# Guess:   `match ip address prefix-list A` and the same for B match what is in either, as in the configurations of
#          routers that FRR's language is modelled on, or what is in both.
# Package: frr 8.4.4-1.1~deb12u2 (Debian 12).
# Happens: the list of the last line alone counts, and nothing is said: routes of the first one are not announced.
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
    cat >/etc/frr/bgpd.conf <<CONF
ip prefix-list A permit 10.1.0.0/16
ip prefix-list B permit 10.2.0.0/16
route-map M permit 10
 match ip address prefix-list A
 match ip address prefix-list B
router bgp 65001
 bgp router-id 192.0.2.1
 no bgp network import-check
 address-family ipv4 unicast
  network 10.1.0.0/16 route-map M
  network 10.2.0.0/16 route-map M
  network 192.0.2.0/24
CONF
    : >/etc/frr/vtysh.conf
    bgpd --no_zebra --bgp_port 0 --daemon >/dev/null 2>&1
    # The last network comes when those before it have.
    best() { vtysh -d bgpd -c "show bgp ipv4 unicast" | sed -n "s/^[*]> *\([0-9./]*\) .*/\1/p" | paste -sd ,; }
    until best | grep -q 192.0.2.0/24; do sleep 0.1; done
    echo "announced: $(best)"
    echo "kept: $(vtysh -d bgpd -c "show running-config" |
        sed -n "/^route-map M /,/^exit/s/^ match/match/p" | paste -sd ,)"')
expected='announced: 10.2.0.0/16,192.0.2.0/24
kept: match ip address prefix-list B'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
