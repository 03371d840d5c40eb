#!/bin/sh
# All network namespaces share one table of neighbours and its limit, and none but the first can see or change it.
#
# Guess:   a namespace has its own neighbours, so their number and limit (gc_thresh3, 1024 by default) are its own.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: 300 neighbours added in another namespace are counted in this one's /proc/net/stat/arp_cache, and
#          net.ipv4.neigh.default.gc_thresh3 is only here. So 40 nodes on one switch that all talk to each other take
#          1,560 entries of the machine's 1,024, while `ip neigh` in each of them shows 39.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
[ -e /proc/sys/net/ipv4/neigh/default/gc_thresh3 ] || skip "not in the initial network namespace"

# Entries added by hand are counted, but the limit spares them: nobody on this machine lacks one because of these.
# shellcheck disable=SC2016
seen=$(alone '
    entries() { echo $((0x$(sed -n "2s/ .*//p" "/proc/$0/net/stat/arp_cache"))); }
    before=$(entries)
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    for host in $(seq 1 150); do
        echo "neigh add 10.0.1.$host lladdr 02:00:00:00:00:02 dev p1"
        echo "neigh add 10.0.2.$host lladdr 02:00:00:00:00:02 dev p1"
    done | ip -batch -
    more=$(($(entries) - before))
    # Others on this machine come and go meanwhile.
    [ "$more" -lt 250 ] || [ "$more" -gt 350 ] || more="some 300"
    echo "in a namespace: $(ip neigh show nud permanent | wc -l) neighbours"
    echo "its limit: $(cat /proc/sys/net/ipv4/neigh/default/gc_thresh3 2>/dev/null || echo not there)"
    echo "in the initial namespace: $more more are counted"' $$)
expected='in a namespace: 300 neighbours
its limit: not there
in the initial namespace: some 300 more are counted'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
