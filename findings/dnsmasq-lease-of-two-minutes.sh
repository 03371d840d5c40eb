#!/bin/sh
# dnsmasq makes a lease of ten seconds one of two minutes, without a word.
#
# Guess:   a lease of `dhcp-range=…,10s` is ten seconds long, or the line is refused.
# Package: dnsmasq-base 2.90-4~deb12u2, udhcpc (busybox) 1:1.35.0-4+deb12u1+b1, iproute2 6.1.0-3 (Debian 12).
# Happens: each time below 120 seconds becomes 120, also when the client asks for 10; 121 stays. `dnsmasq --test` says
#          that the syntax is right.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    busybox=1:1.35.0-4+deb12u1+b1 dnsmasq-base=2.90-4~deb12u2 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
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
[ "$1" != bound ] || echo "lease of $lease s"
TELL
chmod +x "$tmp/tell"
mkfifo "$tmp/ready"

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
    for time in 10s 119s 121s; do
        cat >conf <<CONF
port=0
interface=p1
dhcp-range=10.0.0.10,10.0.0.20,255.255.255.0,$time
no-ping
dhcp-authoritative
leasefile-ro
user=
group=
pid-file=
CONF
        dnsmasq --test --conf-file="$PWD/conf" 2>test
        dnsmasq --keep-in-foreground --log-facility=- --conf-file="$PWD/conf" >>log 2>&1 &
        dnsmasq=$!
        echo "$time: $(cat test) $(udhcpc)"
        [ "$time" != 10s ] || echo "$time, asked for 10 s: $(udhcpc -x 0x33:0000000a)"
        kill "$dnsmasq"
        wait "$dnsmasq" || :
    done
    kill "$far"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='10s: dnsmasq: syntax check OK. lease of 120 s
10s, asked for 10 s: lease of 120 s
119s: dnsmasq: syntax check OK. lease of 120 s
121s: dnsmasq: syntax check OK. lease of 121 s'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
