#!/bin/sh
# One zone file has other TTLs in BIND than in NSD and Knot DNS, where it does not say them.
#
# Guess:   without `$TTL` all servers take a record's TTL from the same place, or refuse the file.
# Package: bind9-utils 1:9.18.49-1~deb12u3, ldnsutils 1.8.3-1+b1, nsd 4.6.1-1, knot 3.2.6-1 (Debian 12).
# Happens: behind a record with a TTL of its own, BIND and ldns give the next ones that, NSD and Knot 3600. Where no TTL
#          is in the file at all, BIND takes the SOA's minimum (30 here), the others 3600.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    bind9-utils=1:9.18.49-1~deb12u3 bind9-dnsutils=1:9.18.49-1~deb12u3 \
    bind9-libs=1:9.18.49-1~deb12u3 bind9-host=1:9.18.49-1~deb12u3 \
    ldnsutils=1.8.3-1+b1 nsd=4.6.1-1 knot=3.2.6-1 >"$tmp/apt" 2>&1 ||
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

cat >"$tmp/nsd.conf" <<CONF
server:
  ip-address: 127.0.0.1@5300
  zonesdir: "$tmp"
  username: ""
  pidfile: "$tmp/nsd.pid"
  database: ""
  zonelistfile: "$tmp/nsd.list"
  xfrdfile: "$tmp/nsd.state"
  xfrdir: "$tmp"
remote-control:
  control-enable: no
zone:
  name: lab.example
  zonefile: zone
CONF
cat >"$tmp/knot.conf" <<CONF
server:
  rundir: $tmp
  listen: 127.0.0.1@5301
database:
  storage: $tmp/knot
template:
  - id: default
    storage: $tmp
    journal-content: none
    zonefile-sync: -1
zone:
  - domain: lab.example
    file: zone
CONF

# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    # The TTL of the record of $name among those that come in.
    ttl() { sed -n "s/^$name[.][^0-9]*\([0-9]*\)[ \t].*/\1/p"; }
    asked() {
        answer=
        while [ -z "$answer" ]; do
            answer=$(dig @127.0.0.1 -p "$1" +norec +tries=1 +timeout=1 +noall +answer "$name.lab.example." | ttl)
        done
        echo "$answer"
    }
    show() {
        printf "%s\n" "@$2 IN SOA ns host 1 3600 600 86400 30" "@ IN NS ns" "ns$3 IN A 10.0.0.1" "b IN A 10.0.0.2" >zone
        nsd -d -c nsd.conf >log 2>&1 &
        nsd=$!
        knotd -c knot.conf >log2 2>&1 &
        knot=$!
        for name in ns b; do
            echo "$1, $name:" \
                "BIND $(named-compilezone -q -o - lab.example zone | ttl)," \
                "ldns $( (echo "\$ORIGIN lab.example."; cat zone) | ldns-read-zone /dev/stdin | ttl)," \
                "NSD $(asked 5300), Knot $(asked 5301)"
        done
        kill "$nsd" "$knot"
        { wait || :; } 2>/dev/null
    }
    show "TTLs at SOA and ns" " 100" " 60"
    show "no TTL" "" ""' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='TTLs at SOA and ns, ns: BIND 60, ldns 60, NSD 60, Knot 60
TTLs at SOA and ns, b: BIND 60, ldns 60, NSD 3600, Knot 3600
no TTL, ns: BIND 30, ldns 3600, NSD 3600, Knot 3600
no TTL, b: BIND 30, ldns 3600, NSD 3600, Knot 3600'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
