#!/bin/sh
# In FRR an unknown list matches nothing, and an unknown route map denies all, but permits when it is called.
#
# Guess:   a prefix list or route map that is named and does not exist is refused, or matches and permits all, as in
#          the routers that FRR's language is modelled on; either way always the same.
# Package: frr 8.4.4-1.1~deb12u2 (Debian 12).
# Happens: `match` with an unknown prefix list, access list, community list or AS path matches nothing, so a `deny`
#          with it denies nothing; an unknown map at `network` denies the network, and `call` of an unknown map
#          permits.
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
route-map PREFIX permit 10
 match ip address prefix-list NONE
route-map ACCESS permit 10
 match ip address NONE
route-map COMMUNITY permit 10
 match community NONE
route-map PATH permit 10
 match as-path NONE
route-map DENY deny 10
 match ip address prefix-list NONE
route-map DENY permit 20
route-map CALL permit 10
 call NONE
router bgp 65001
 bgp router-id 192.0.2.1
 no bgp network import-check
 address-family ipv4 unicast
  network 10.1.0.0/16 route-map PREFIX
  network 10.2.0.0/16 route-map ACCESS
  network 10.3.0.0/16 route-map COMMUNITY
  network 10.4.0.0/16 route-map PATH
  network 10.5.0.0/16 route-map DENY
  network 10.6.0.0/16 route-map CALL
  network 10.7.0.0/16 route-map NONE
  network 192.0.2.0/24
CONF
    bgpd --no_zebra --bgp_port 0 --daemon >/dev/null 2>&1
    # The last network comes when those before it have.
    best() { vtysh -d bgpd -c "show bgp ipv4 unicast" | sed -n "s/^[*]> *\([0-9./]*\) .*/\1/p" | paste -sd ,; }
    until best | grep -q 192.0.2.0/24; do sleep 0.1; done
    for line in "1 PREFIX" "2 ACCESS" "3 COMMUNITY" "4 PATH" "5 DENY" "6 CALL" "7 NONE"; do
        case ,$(best), in *,10.${line%% *}.0.0/16,*) answer=announced ;; *) answer="not announced" ;; esac
        echo "${line##* }: $answer"
    done')
expected='PREFIX: not announced
ACCESS: not announced
COMMUNITY: not announced
PATH: not announced
DENY: announced
CALL: announced
NONE: not announced'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
