#!/bin/sh
# FRR does not use a static route whose gateway only the default route reaches; BIRD does.
#
# Guess:   a gateway is looked up like any address, so the default route counts.
# Package: frr 8.4.4-1.1~deb12u2, bird2 2.0.12-7, iproute2 6.1.0-3 (Debian 12).
# Happens: in FRR the route is not installed, and `show ip route` leaves it out, until `ip nht resolve-via-default` is
#          said. BIRD's `recursive` resolves it by the default route as by others.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d -p /tmp)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    frr=8.4.4-1.1~deb12u2 bird2=2.0.12-7 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
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
alone() { unshare $user --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

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
    : >/etc/frr/zebra.conf
    ip link set lo up
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    ip route add default via 10.0.0.2
    ip route add 198.51.100.0/24 via 10.0.0.2
    # The second one shows that the first one was looked at, too.
    printf "ip route 10.8.0.0/16 192.0.2.9\nip route 10.9.0.0/16 198.51.100.9\n" >/etc/frr/staticd.conf
    zebra --daemon >/dev/null 2>&1
    staticd --daemon >/dev/null 2>&1
    # The names of protocols are in the hidden /etc: 196 is for static routes of FRR, 12 for BIRD.
    routes() { ip route show proto "$1" | sed -n "s/^\(10[.][89][^ ]*\) .*via \([^ ]*\).*/\1 via \2/p" | paste -sd ,; }
    until routes 196 | grep -q 10.9.0.0; do sleep 0.1; done
    echo "FRR: $(routes 196); shown: $(vtysh -c "show ip route static" | grep -c "^S")"
    vtysh -c "configure terminal" -c "ip nht resolve-via-default"
    until routes 196 | grep -q 10.8.0.0; do sleep 0.1; done
    echo "FRR, resolve-via-default: $(routes 196)"
    cat >/run/bird.conf <<CONF
router id 10.0.0.1;
protocol device {}
protocol kernel { learn; ipv4 { export all; }; }
protocol static { ipv4; route 10.8.0.0/16 recursive 192.0.2.9; route 10.9.0.0/16 recursive 198.51.100.9; }
CONF
    bird -c /run/bird.conf -s /run/bird.ctl -P /run/bird.pid
    until [ "$(ip route show proto 12 | grep -c "^10[.][89]")" -eq 2 ]; do sleep 0.1; done
    echo "BIRD: $(routes 12)"')
expected='FRR: 10.9.0.0/16 via 10.0.0.2; shown: 1
FRR, resolve-via-default: 10.8.0.0/16 via 10.0.0.2,10.9.0.0/16 via 10.0.0.2
BIRD: 10.8.0.0/16 via 10.0.0.2,10.9.0.0/16 via 10.0.0.2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
