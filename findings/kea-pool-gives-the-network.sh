#!/bin/sh
# A Kea pool that is written as a prefix gives a client the address of the network.
#
# Guess:   `"pool": "10.0.0.0/30"` gives the addresses of hosts, and leaves out the network's and the server's own.
# Package: kea-dhcp4-server 2.2.0-6, udhcpc (busybox) 1:1.35.0-4+deb12u1+b1, iproute2 6.1.0-3 (Debian 12).
# Happens: the first client gets 10.0.0.0 of 10.0.0.0/24, the second one 10.0.0.1, which the server has itself on that
#          link.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    busybox=1:1.35.0-4+deb12u1+b1 kea-dhcp4-server=2.2.0-6 kea-common=2.2.0-6 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
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
alone 'ip link add name p1 type veth peer name p2' 2>/dev/null || skip "no veth in this kernel"

cat >"$tmp/tell" <<'TELL'
#!/bin/sh
[ "$1" != bound ] || echo "$ip of $subnet"
TELL
chmod +x "$tmp/tell"
mkfifo "$tmp/ready"

cat >"$tmp/conf" <<'CONF'
{"Dhcp4": {
    "interfaces-config": {"interfaces": ["p1"], "dhcp-socket-type": "raw"},
    "lease-database": {"type": "memfile", "persist": false},
    "subnet4": [{"subnet": "10.0.0.0/24", "pools": [{"pool": "10.0.0.0/30"}]}],
    "loggers": [{"name": "kea-dhcp4", "severity": "INFO", "output_options": [{"output": "stdout"}]}]
}}
CONF
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    unshare --net sh -c "echo there; exec sleep 300" >ready &
    read -r there <ready
    far=$!
    ip link add name p1 type veth peer name p2 netns "$far"
    ip link set p1 up
    ip addr add 10.0.0.1/24 dev p1
    nsenter --target "$far" --net ip link set p2 up
    udhcpc() {
        nsenter --target "$far" --net busybox udhcpc -i p2 -n -q -f -t 20 -T 1 -s "$PWD/tell" "$@" 2>>log
    }
    until [ "$(ip -br link show dev p1 | grep -c LOWER_UP)" -eq 1 ]; do sleep 0.1; done
    export KEA_PIDFILE_DIR="$PWD" KEA_LOCKFILE_DIR="$PWD"
    : >kea
    kea-dhcp4 -c conf >kea 2>&1 &
    until grep -q DHCP4_STARTED kea; do sleep 0.1; done
    for client in 1 2 3; do
        echo "client $client: $(udhcpc -C -x "0x3d:000$client")"
    done
    kill "$!" "$far"' "$tmp") || { cat "$tmp/kea" "$tmp/log"; exit 1; }
expected='client 1: 10.0.0.0 of 255.255.255.0
client 2: 10.0.0.1 of 255.255.255.0
client 3: 10.0.0.2 of 255.255.255.0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
