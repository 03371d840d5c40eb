#!/bin/sh
# cloud-init takes the MAC address 52:54:00:12:34:56 for the number 41135085296, netplan for a MAC address.
#
# Guess:   one network configuration (version 2) is read alike by netplan, whose format it is, and by cloud-init.
# Package: cloud-init 22.4.2-1+deb12u4, netplan.io 0.106-2+deb12u1 (Debian 12).
# Happens: without quotes digits and colons are a number to base 60 in YAML 1.1, which cloud-init reads: it writes a
#          rule and a network for a MAC address that no interface has. A letter in the address prevents it. QEMU's own
#          addresses begin with 52:54:00.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    cloud-init=22.4.2-1+deb12u4 netplan.io=0.106-2+deb12u1 libnetplan0=0.106-2+deb12u1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
[ -x /usr/bin/python3 ] || skip "no python3 of Debian"

mkdir -p "$tmp/plan/etc/netplan"
cat >"$tmp/plan/etc/netplan/lab.yaml" <<'YAML'
network:
  version: 2
  ethernets:
    digits:
      match: {macaddress: 52:54:00:12:34:56}
      set-name: lan0
      addresses: [10.0.0.1/24]
    letter:
      match: {macaddress: 52:54:00:12:34:5a}
      set-name: lan1
      addresses: [10.0.1.1/24]
YAML
chmod 600 "$tmp/plan/etc/netplan/lab.yaml"
cd "$tmp"
mkdir cloud
seen=$(
    root/usr/libexec/netplan/generate --root-dir plan >log 2>&1
    PYTHONPATH=$tmp/root/usr/lib/python3/dist-packages /usr/bin/python3 -W ignore -m cloudinit.cmd.main devel \
        net-convert -p plan/etc/netplan/lab.yaml -k yaml -d cloud -D debian -O networkd >>log 2>&1
    for name in digits letter; do
        echo "netplan: $(grep PermanentMACAddress "plan/run/systemd/network/10-netplan-$name.network")"
    done
    for name in lan0 lan1; do
        echo "cloud-init: $(grep MACAddress "cloud/etc/systemd/network/10-cloud-init-$name.network")"
    done
) || { cat log; exit 1; }
expected='netplan: PermanentMACAddress=52:54:00:12:34:56
netplan: PermanentMACAddress=52:54:00:12:34:5a
cloud-init: MACAddress=41135085296
cloud-init: MACAddress=52:54:00:12:34:5a'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
