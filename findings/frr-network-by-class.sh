#!/bin/sh
# FRR takes `network 10.10.0.0` for 10.0.0.0/8.
#
# Guess:   without a length it is refused, or a host's address, as `ip route add 10.10.0.0` has it.
# Package: frr 8.4.4-1.1~deb12u2 (Debian 12), its bgpd.
# Happens: the length is that of the address's class, of the time before CIDR, and the rest of the address is cut off:
#          172.20.1.0 is 172.20.0.0/16. A router announces 16 million addresses that are not its own.
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
    : >/etc/frr/vtysh.conf
    cat >/etc/frr/bgpd.conf <<CONF
router bgp 65001
 bgp router-id 192.0.2.1
 no bgp network import-check
 address-family ipv4 unicast
  network 10.10.0.0
  network 172.20.1.0
  network 192.168.7.0
  network 203.0.113.0/24
CONF
    bgpd --no_zebra --bgp_port 0 --daemon >/dev/null 2>&1
    # The last network comes when those before it have.
    best() { vtysh -d bgpd -c "show bgp ipv4 unicast" | sed -n "s/^[*]> *\([0-9./]*\) .*/\1/p" | paste -sd ,; }
    until best | grep -q 203.0.113.0; do sleep 0.1; done
    echo "announced: $(best)"')
expected='announced: 10.0.0.0/8,172.20.0.0/16,192.168.7.0/24,203.0.113.0/24'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
