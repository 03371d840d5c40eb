#!/bin/sh
# cloud-init configures the interface `wan`, where the configuration says `match: {name: "ens*"}` of an entry `wan`.
#
# Guess:   the entry is for the interfaces whose names match, as in netplan, or is refused where a format has no
#          patterns.
# Package: cloud-init 22.4.2-1+deb12u4, netplan.io 0.106-2+deb12u1 (Debian 12).
# Happens: for ifupdown and systemd-networkd cloud-init leaves out `match: name` and takes the entry's label for the
#          name, so no interface is configured, and nothing is said. systemd-networkd has patterns, and netplan writes
#          `Name=ens*` for it.
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
    wan:
      match: {name: "ens*"}
      addresses: [10.0.0.1/24]
YAML
chmod 600 "$tmp/plan/etc/netplan/lab.yaml"
cd "$tmp"
seen=$(
    root/usr/libexec/netplan/generate --root-dir plan >log 2>&1
    echo "netplan: $(grep ^Name plan/run/systemd/network/10-netplan-wan.network)"
    for kind in networkd eni; do
        mkdir "$kind"
        PYTHONPATH=$tmp/root/usr/lib/python3/dist-packages /usr/bin/python3 -W ignore -m cloudinit.cmd.main devel \
            net-convert -p plan/etc/netplan/lab.yaml -k yaml -d "$kind" -D debian -O "$kind" >>log 2>&1
    done
    echo "cloud-init, networkd: $(grep ^Name networkd/etc/systemd/network/10-cloud-init-wan.network)"
    echo "cloud-init, ifupdown: $(grep '^iface .* static' eni/etc/network/interfaces.d/50-cloud-init)"
) || { cat log; exit 1; }
expected='netplan: Name=ens*
cloud-init, networkd: Name=wan
cloud-init, ifupdown: iface wan inet static'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
