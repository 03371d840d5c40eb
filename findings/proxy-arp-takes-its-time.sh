#!/bin/sh
# A router that answers ARP for others waits up to 0.8 s before it does.
#
# Guess:   with proxy_arp a router answers for other addresses at once, as for its own.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: each answer waits for a random time below neigh/p2/proxy_delay, 0.8 s by default: a first ping takes
#          hundreds of milliseconds in a lab where all is idle. With proxy_delay 0 it comes at once.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

# Asks for 16 addresses of another interface, and tells what an answer takes on average.
cat >"$tmp/ask.py" <<'PYTHON'
import socket
import time

end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
end.bind(("p1", 0x0806))
OWN = end.getsockname()[4]
asked = {}
for host in range(1, 17):
    target = socket.inet_aton("10.0.2.%d" % host)
    asked[target] = time.monotonic()
    end.send(bytes(6 * [255]) + OWN + bytes.fromhex("0806" "0001080006040001") + OWN + socket.inet_aton("10.0.1.2") +
             bytes(6) + target)
times = []
while len(times) < len(asked):
    frame = end.recv(2048)
    if frame[20:22] == b"\0\2":
        times.append(time.monotonic() - asked[frame[28:32]])
print("less than 0.1 s" if sum(times) < 1.6 else "more than 0.1 s")
PYTHON
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    # A node of its own for the router: it ends with this one.
    unshare --net sh -c "echo there; exec sleep 300" >ready &
    read -r there <ready
    router=$!
    far() { nsenter --target "$router" --net "$@"; }
    ip link add name p1 type veth peer name p2 netns "$router"
    ip link set p1 up
    far ip link add name d1 type veth peer name d2
    for name in d1 d2 p2; do far ip link set "$name" up; done
    far ip addr add 10.0.1.1/24 dev p2
    far ip addr add 10.0.2.254/24 dev d1
    far sh -c "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv4/conf/p2/proxy_arp"
    echo "proxy_delay $(far cat /proc/sys/net/ipv4/neigh/p2/proxy_delay): $(python3 ask.py) on average"
    far sh -c "echo 0 >/proc/sys/net/ipv4/neigh/p2/proxy_delay"
    echo "proxy_delay 0: $(python3 ask.py) on average"' "$tmp")
expected='proxy_delay 80: more than 0.1 s on average
proxy_delay 0: less than 0.1 s on average'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
