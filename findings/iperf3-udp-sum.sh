#!/bin/sh
# `end.sum` of iperf3's JSON for UDP joins the sender's rate with the receiver's losses.
#
# Guess:   with lost_percent, jitter_ms and bits_per_second side by side, all three are the receiver's.
# Package: iperf3 3.12-1+deb12u2, iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: bytes and bits_per_second are what was sent, as in sum_sent; lost packets are those of sum_received.
#          Where half is lost, the rate is twice that of the link. sum_received has what arrived.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"
alone 'tc qdisc add dev lo root tbf rate 10mbit burst 15kb latency 50ms' 2>/dev/null || skip "no tbf in this kernel"

cat >"$tmp/tell.py" <<'PYTHON'
import json
import sys

end = json.load(sys.stdin)["end"]
total, sent, received = end["sum"], end["sum_sent"], end["sum_received"]
print("lost:", "some" if received["lost_packets"] > 0 and received["bytes"] < sent["bytes"] else "none")
for key in ("bytes", "bits_per_second", "lost_packets", "jitter_ms"):
    print("sum.%s: as %s" % (key, " and ".join(
        name for name, part in (("sent", sent), ("received", received)) if part[key] == total[key])))
PYTHON
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$1"
    unshare --net sh -c "echo there; exec sleep 300" >ready &
    read -r there <ready
    far=$!
    ip link add name p1 type veth peer name p2
    ip link set p2 netns "$far"
    ip link set p1 up
    nsenter --target "$far" --net ip link set p2 up
    ip addr add 10.0.0.1/24 dev p1
    nsenter --target "$far" --net ip addr add 10.0.0.2/24 dev p2
    tc qdisc add dev p1 root tbf rate 5mbit burst 5kb latency 20ms
    nsenter --target "$far" --net iperf3 -s -1 >log 2>&1 &
    until nsenter --target "$far" --net grep -q ":1451 " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do :; done
    iperf3 -c 10.0.0.2 -u -b 10M -l 1000 -t 2 -J | python3 tell.py' sh "$tmp") || { cat "$tmp/log"; exit 1; }
expected='lost: some
sum.bytes: as sent
sum.bits_per_second: as sent
sum.lost_packets: as received
sum.jitter_ms: as received'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
