#!/bin/sh
# dnsmasq's `cname=` to a name of an `address=` line gives no address.
#
# Guess:   an alias is answered with the address of its target, wherever dnsmasq has that from.
# Package: dnsmasq-base 2.90-4~deb12u2, bind9-dnsutils 1:9.18.49-1~deb12u3 (Debian 12).
# Happens: with a target in `host-record=` the answer has the alias and the address; with one in `address=`, which is
#          answered with that address when asked for itself, it is the alias alone, and the host has no address.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    'dnsmasq-base=2.90-4~deb12u2' 'bind9-dnsutils=1:9.18.49-1~deb12u3' 'bind9-host=1:9.18.49-1~deb12u3' \
    'bind9-libs=1:9.18.49-1~deb12u3' \
    >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/conf" <<'CONF'
keep-in-foreground
port=5300
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
user=root
pid-file=
host-record=record.lab,10.0.0.8
address=/address.lab/10.0.0.9
cname=alias-1.lab,record.lab
cname=alias-2.lab,address.lab
CONF
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    dnsmasq --conf-file=conf >log 2>&1 &
    ask() { dig @127.0.0.1 -p 5300 +short +tries=1 +time=5 "$1" 2>>log | paste -sd " "; }
    until [ "$(ask record.lab)" = 10.0.0.8 ]; do sleep 0.1; done
    for name in record.lab address.lab alias-1.lab alias-2.lab; do echo "$name: $(ask "$name")"; done' "$tmp") ||
    { cat "$tmp/log"; exit 1; }
expected='record.lab: 10.0.0.8
address.lab: 10.0.0.9
alias-1.lab: record.lab. 10.0.0.8
alias-2.lab: address.lab.'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
