#!/bin/sh
# Two macvlan interfaces of one lower interface do not reach one another, unless `mode bridge` is said.
#
# Guess:   nodes on macvlans of one interface are neighbours, as on a bridge.
# Package: iproute2 6.1.0-3, iputils-ping 3:20221126-1+deb12u1 (Debian 12), on Linux 6.18.
# Happens: without a mode it is `vepa`: frames for the other one leave at the lower interface, and only a switch that
#          sends them back (802.1Qbg) would bring them. With `mode bridge` the ping is answered.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 iputils-ping=3:20221126-1+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
mkfifo "$tmp/ready"
alone 'ip link add name p1 type veth peer name p2; ip link add name m1 link p1 type macvlan' 2>/dev/null ||
    skip "no veth or no macvlan in this kernel"

# shellcheck disable=SC2016
seen=$(alone '
    unshare --net sh -c "echo there; exec sleep 300" >"$0" &
    read -r there <"$0"
    far=$!
    ip link add name p1 type veth peer name p2
    ip link set p1 up
    ip link set p2 up
    for mode in "" "mode bridge"; do
        # shellcheck disable=SC2086
        ip link add name m1 link p1 type macvlan $mode
        # shellcheck disable=SC2086
        ip link add name m2 link p1 netns "$far" type macvlan $mode
        ip addr add 10.0.0.1/24 dev m1
        ip link set m1 up
        nsenter --target "$far" --net ip addr add 10.0.0.2/24 dev m2
        nsenter --target "$far" --net ip link set m2 up
        if ping -c 1 -W 3 10.0.0.2 >/dev/null; then answer=answered; else answer="nobody answers"; fi
        echo "type macvlan $mode: $(ip -d link show dev m1 | grep -o "macvlan mode [a-z]*"), $answer"
        ip link del m1
        nsenter --target "$far" --net ip link del m2
    done
    kill "$far"' "$tmp/ready")
expected='type macvlan : macvlan mode vepa, nobody answers
type macvlan mode bridge: macvlan mode bridge, answered'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
