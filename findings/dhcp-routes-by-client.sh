#!/bin/sh
# One DHCP offer with a router and a classless route gives busybox's client a default route, and dhcpcd none.
#
# Guess:   both get options 3 and 121, and set up the routes of 121 alone, as RFC 3442 wants it of a client.
# Package: udhcpc (busybox) 1:1.35.0-4+deb12u1+b1, dhcpcd-base 9.4.1-24~deb12u5, dnsmasq-base 2.90-4~deb12u2,
#          iproute2 6.1.0-3 (Debian 12).
# Happens: udhcpc does not ask for 121 unless `-O staticroutes` is given, and dnsmasq sends what is asked for. dhcpcd
#          asks for both and takes 121: images with different clients have different routes on one network.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    busybox=1:1.35.0-4+deb12u1+b1 dhcpcd-base=9.4.1-24~deb12u5 \
    dnsmasq-base=2.90-4~deb12u2 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
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

cat >"$tmp/conf" <<CONF
port=0
interface=p1
dhcp-range=10.0.0.10,10.0.0.20,255.255.255.0,1h
dhcp-option=option:router,10.0.0.1
dhcp-option=option:classless-static-route,10.7.0.0/16,10.0.0.2
no-ping
dhcp-authoritative
leasefile-ro
user=
group=
pid-file=
CONF
cat >"$tmp/tell" <<'TELL'
#!/bin/sh
[ "$1" != bound ] || echo "router ${router:-none}, static routes ${staticroutes:-none}"
TELL
chmod +x "$tmp/tell"
mkfifo "$tmp/ready"
# shellcheck disable=SC2016
seen=$(alone '
    cd "$1"
    ip link set lo up
    unshare --mount --net sh -c "echo there; exec sleep 300" >ready &
    read -r there <ready
    client() { nsenter --target "$far" --mount --net "$@"; }
    far=$!
    ip link add name p1 type veth peer name p2
    ip link set p2 netns "$far"
    ip link set p1 up
    ip addr add 10.0.0.1/24 dev p1
    client ip link set lo up
    client ip link set p2 up
    dnsmasq --keep-in-foreground --conf-file="$PWD/conf" >log 2>&1 &
    udhcpc() { client busybox udhcpc -i p2 -n -q -f -t 20 -T 1 -s "$PWD/tell" "$@" 2>>log; }
    echo "udhcpc: $(udhcpc)"
    echo "udhcpc -O staticroutes: $(udhcpc -O staticroutes)"
    client mount -t tmpfs none /run
    client mount -t tmpfs none /var/lib
    client mkdir /var/lib/dhcpcd
    client dhcpcd -f "$PWD/root/etc/dhcpcd.conf" -c /bin/true -1 -4 --noarp -t 30 p2 >>log 2>&1
    echo "dhcpcd: $(client ip route | sed -n "s/^\(default\|10.7[^ ]*\) via \([^ ]*\).*/\1 via \2/p" | paste -sd ,)"' \
    sh "$tmp") || { cat "$tmp/log"; exit 1; }
expected='udhcpc: router 10.0.0.1, static routes none
udhcpc -O staticroutes: router 10.0.0.1, static routes 10.7.0.0/16 10.0.0.2
dhcpcd: 10.7.0.0/16 via 10.0.0.2'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
