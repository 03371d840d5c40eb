#!/bin/sh
# ifupdown takes `address 10.0.0.1` without a netmask for 10.0.0.1/8.
#
# Guess:   without a length it is a /32, as `ip addr add 10.0.0.1` has it, or an error.
# Package: ifupdown 0.8.41 (Debian 12), its `ifup --no-act`.
# Happens: the netmask is that of the address's class, of the time before CIDR: 172.20.0.1 gets a /16, 192.168.7.1 a
#          /24, each with the broadcast address of it. An IPv6 address gets no length, so it stays alone.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    ifupdown=0.8.41 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH

cd "$tmp"
cat >interfaces <<'INTERFACES'
iface p1 inet static
    address 10.0.0.1
iface p2 inet static
    address 172.20.0.1
iface p3 inet static
    address 192.168.7.1
iface p4 inet6 static
    address 2001:db8::1
INTERFACES
seen=$(
    for name in p1 p2 p3 p4; do
        ifup --no-act --verbose --force --interfaces=interfaces --state-dir="$tmp" "$name" 2>&1 |
            sed -n 's/ *\(dev p[0-9]\).*/ \1/; s/[[:space:]][[:space:]]*/ /g; /addr add/p'
    done
)
expected='ip addr add 10.0.0.1/255.0.0.0 broadcast 10.255.255.255 dev p1
ip addr add 172.20.0.1/255.255.0.0 broadcast 172.20.255.255 dev p2
ip addr add 192.168.7.1/255.255.255.0 broadcast 192.168.7.255 dev p3
ip -6 addr add 2001:db8::1 dev p4'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
