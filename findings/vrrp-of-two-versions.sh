#!/bin/sh
# keepalived and FRR's vrrpd do not hear one another with what they do by default: both are master.
#
# Guess:   routers that share a VRRP number and an address agree on a master, as VRRP is for.
# Package: keepalived 1:2.2.7-1+b2, frr 8.4.4-1.1~deb12u2, iproute2 6.1.0-3 (Debian 12).
# Happens: keepalived speaks version 2 and FRR version 3, and each leaves out the other's: both have the address.
#          With `vrrp_version 3` in keepalived the one of priority 200 is master alone.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d -p /tmp)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    'frr=8.4.4-1.1~deb12u2' 'keepalived=1:2.2.7-1+b2' iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PATH=$tmp/root/usr/lib/frr:$PATH
for folder in "$tmp"/root/usr/lib/*-linux-gnu*; do LD_LIBRARY_PATH=$folder:$folder/frr; done
export LD_LIBRARY_PATH
# Where vtysh keeps its history.
export HOME="$tmp"

[ "$(id -u)" -eq 0 ] || skip "keepalived needs root"
alone() { unshare --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"
alone 'ip link add name p1 type veth peer name p2; ip link add name m1 link p1 type macvlan' 2>"$tmp/try" ||
    skip "no veth or no macvlan in this kernel"
mkfifo "$tmp/ready"

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
    unshare --net sh -c "echo there; exec sleep 300" >"$0/ready" &
    read -r there <"$0/ready"
    far=$!
    ip link add name p1 type veth peer name p2 netns "$far"
    ip link set p1 up
    ip addr add 10.0.0.1/24 dev p1
    nsenter --target "$far" --net ip link set p2 up
    nsenter --target "$far" --net ip addr add 10.0.0.2/24 dev p2
    # FRR wants the address of the virtual router on an interface of its MAC address.
    ip link add name m1 link p1 address 00:00:5e:00:01:05 type macvlan mode bridge
    ip addr add 10.0.0.100/24 dev m1
    ip link set m1 up
    printf "interface p1\n vrrp 5\n vrrp 5 priority 100\n vrrp 5 ip 10.0.0.100\n" >/etc/frr/vrrpd.conf
    : >/etc/frr/zebra.conf
    zebra --daemon >/dev/null 2>&1
    vrrpd --daemon >/dev/null 2>&1
    mkdir /etc/keepalived
    for version in 2 3; do
        cat >/etc/keepalived/one.conf <<CONF
global_defs {
    vrrp_version $version
}
vrrp_instance A {
    interface p2
    virtual_router_id 5
    priority 200
    virtual_ipaddress {
        10.0.0.100
    }
}
CONF
        [ "$version" -eq 3 ] || sed -i "/^global_defs/,/^}/d" /etc/keepalived/one.conf
        nsenter --target "$far" --net keepalived -n -l -D -P -f /etc/keepalived/one.conf \
            -p "/run/k$version" -r "/run/v$version" >"/run/log$version" 2>&1 &
        keepalived=$!
        frr() { vtysh -d vrrpd -c "show vrrp" | sed -n "s/.*Status (v4) *\([A-Za-z]*\) *\$/\1/p"; }
        has() { nsenter --target "$far" --net ip addr show dev p2 | grep -q 10.0.0.100; }
        until has; do sleep 0.1; done
        # Three advertisements later each knows of the other what it will know.
        if [ "$version" -eq 2 ]; then
            until [ "$(grep -c "wrong version" "/run/log$version")" -ge 3 ]; do sleep 0.1; done
            named="keepalived as it is"
        else
            until [ "$(frr)" = Backup ]; do sleep 0.1; done
            named="keepalived with vrrp_version 3"
        fi
        has && echo "$named: keepalived Master, FRR $(frr)"
        kill "$keepalived"
        wait "$keepalived" || :
        until [ "$(frr)" = Master ]; do sleep 0.1; done
    done' "$tmp")
expected='keepalived as it is: keepalived Master, FRR Master
keepalived with vrrp_version 3: keepalived Master, FRR Backup'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
