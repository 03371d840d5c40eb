#!/bin/sh
# A chain of nftables at `device "p1"` loses its hook when p1 is renamed, is listed all the same, and takes the next p1.
#
# Guess:   the hook hangs on the device: it follows a new name, and goes for good with the device.
# Package: nftables 1.0.6-2+deb12u2, iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: it goes by name. A renamed interface is no longer filtered, and the ruleset does not show that. Any interface
#          that is called p1 later is filtered at once, by rules that were written for another one.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nftables=1.0.6-2+deb12u2 iproute2=6.1.0-3 iputils-ping=3:20221126-1+deb12u1 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'nft add table netdev t' 2>/dev/null || skip "no nf_tables in this kernel"

cat >"$tmp/rules" <<'NFT'
table netdev t {
    chain c {
        type filter hook ingress device "p1" priority 0
        counter drop
    }
}
NFT
# shellcheck disable=SC2016
seen=$(alone '
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    # Packets go from p2 into the filtered interface, whose name is given.
    pair() {
        ip link add name "$1" type veth peer name p2
        ip link set "$1" up
        ip addr add 10.0.0.1/24 dev p2
        ip link set p2 up
        ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p2
    }
    rename() { ip link set "$1" down; ip link set "$1" name "$2"; ip link set "$2" up; }
    show() {
        before=$(nft list ruleset | grep -o "packets [0-9]*" | cut -d " " -f 2)
        ping -q -c 3 -i 0.1 -W 0.1 10.0.0.2 >/dev/null || :
        after=$(nft list ruleset | grep -o "packets [0-9]*" | cut -d " " -f 2)
        echo "$1: $((after - before)) of 3 packets dropped," \
            "listed at $(nft list ruleset | grep -o "device \"[a-z0-9]*\"")"
    }
    pair p1
    nft -f "$1"
    show "p1"
    rename p1 q1
    show "renamed to q1"
    ip link del q1
    pair p1
    show "another p1"
' sh "$tmp/rules")
expected='p1: 3 of 3 packets dropped, listed at device "p1"
renamed to q1: 0 of 3 packets dropped, listed at device "p1"
another p1: 3 of 3 packets dropped, listed at device "p1"'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
