#!/bin/sh
# unbound does not follow a CNAME among its local data to an address among its local data.
#
# Guess:   a.lab is an alias of b.lab, both are local data: who asks for the address of a.lab gets that of b.lab, too.
# Package: unbound 1.17.1-2+deb12u4, dnsmasq-base 2.90-4~deb12u2, bind9-dnsutils
#          1:9.18.49-1~deb12u3 (Debian 12).
# Happens: the answer is the CNAME alone, as complete as any: a host that asks only its resolver has no address.
#          dnsmasq answers with both.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    unbound=1.17.1-2+deb12u4 dnsmasq-base=2.90-4~deb12u2 \
    bind9-dnsutils=1:9.18.49-1~deb12u3 bind9-libs=1:9.18.49-1~deb12u3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/unbound.conf" <<CONF
server:
  interface: 127.0.0.1@5300
  do-daemonize: no
  username: ""
  chroot: ""
  pidfile: ""
  directory: "$tmp"
  module-config: "iterator"
  use-syslog: no
  local-zone: "lab." static
  local-data: "a.lab. CNAME b.lab."
  local-data: "b.lab. A 10.0.0.1"
remote-control:
  control-enable: no
CONF

# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    unbound -d -c unbound.conf >log 2>&1 &
    dnsmasq --keep-in-foreground --conf-file=/dev/null --user= --group= --pid-file= --no-resolv --no-hosts \
        --port 5301 --host-record=b.lab,10.0.0.1 --cname=a.lab,b.lab >log2 2>&1 &
    asked() {
        answer=
        while [ -z "$answer" ]; do
            answer=$(dig @127.0.0.1 -p "$1" +tries=1 +timeout=1 +noall +answer a.lab A |
                sed -n "s/^[^;].*IN[ \t]*\([A-Z]*\)[ \t]*/\1 /p" | paste -sd ,)
        done
        echo "$answer"
    }
    echo "unbound: $(asked 5300)"
    echo "dnsmasq: $(asked 5301)"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='unbound: CNAME b.lab.
dnsmasq: CNAME b.lab.,A 10.0.0.1'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
