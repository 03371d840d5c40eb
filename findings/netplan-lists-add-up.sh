#!/bin/sh
# In netplan a later file changes a value of an earlier one, but adds to its lists.
#
# Guess:   what a later file says of an interface takes the place of what an earlier one says, be it a number or a list.
# Package: netplan.io 0.106-2+deb12u1 (Debian 12).
# Happens: the MTU is the later file's; addresses, name servers and routes are those of both files, so an interface that
#          should get another address has the old one, too.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    netplan.io=0.106-2+deb12u1 libnetplan0=0.106-2+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

mkdir -p "$tmp/plan/etc/netplan"
for last in 1 2; do
    cat >"$tmp/plan/etc/netplan/$last.yaml" <<YAML
network:
  version: 2
  ethernets:
    eth0:
      mtu: 130$last
      addresses: [10.0.0.$last/24]
      nameservers: {addresses: [10.0.0.5$last]}
      routes: [{to: 10.$last.0.0/16, via: 10.0.0.254}]
YAML
    chmod 600 "$tmp/plan/etc/netplan/$last.yaml"
done
cd "$tmp"
root/usr/libexec/netplan/generate --root-dir plan >log 2>&1 || { cat log; exit 1; }
seen=$(grep -E '^(MTUBytes|Address|DNS|Destination)=' plan/run/systemd/network/10-netplan-eth0.network)
expected='MTUBytes=1302
Address=10.0.0.1/24
Address=10.0.0.2/24
DNS=10.0.0.51
DNS=10.0.0.52
Destination=10.1.0.0/16
Destination=10.2.0.0/16'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
