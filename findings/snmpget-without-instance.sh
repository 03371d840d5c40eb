#!/bin/sh
# snmpget of a thing that is not there is a success with SNMP 2c, and an error with SNMP 1.
#
# Guess:   its exit code tells whether the value was there, with each version of SNMP.
# Package: snmpd, snmp 5.9.3+dfsg-2+deb12u1 (Debian 12).
# Happens: with 2c the exit code is 0 and the text "No Such Instance currently exists at this OID" stands where the
#          value would be, also with -Oqv, on the standard output; with 1 it is 2. A walk below nothing has 0 with
#          both. A check that asks for the state of an interface that has gone passes.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    snmpd=5.9.3+dfsg-2+deb12u1 snmp=5.9.3+dfsg-2+deb12u1 libsnmp40=5.9.3+dfsg-2+deb12u1 \
    libsnmp-base=5.9.3+dfsg-2+deb12u1 >"$tmp/apt" 2>&1 ||
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

echo 'rocommunity public 127.0.0.1' >"$tmp/snmpd.conf"
export SNMP_PERSISTENT_DIR="$tmp" SNMPCONFPATH="$tmp" MIBS='' MIBDIRS="$tmp/root/usr/share/snmp/mibs"

# Interface 1 is `lo`, and there is none with index 77.
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    snmpd -f -Le -C -c snmpd.conf -I ifTable,interface,snmp_mib udp:127.0.0.1:1161 2>log &
    asks() { tool=$1; shift; "$tool" -c public -t 5 -r 9 -Oqv "$@" 2>>log; }
    status=.1.3.6.1.2.1.2.2.1.8
    until [ "$(asks snmpget -v 2c udp:127.0.0.1:1161 "$status.1" || :)" = 1 ]; do sleep 0.1; done
    show() {
        code=0
        text=$(asks "$1" -v "$2" udp:127.0.0.1:1161 "$3") || code=$?
        echo "$4, version $2: exit code $code, \"$text\""
    }
    for version in 1 2c; do
        show snmpget "$version" "$status.1" "snmpget of interface 1"
        show snmpget "$version" "$status.77" "snmpget of interface 77"
        show snmpwalk "$version" "$status.77" "snmpwalk of interface 77"
    done' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='snmpget of interface 1, version 1: exit code 0, "1"
snmpget of interface 77, version 1: exit code 2, ""
snmpwalk of interface 77, version 1: exit code 0, ""
snmpget of interface 1, version 2c: exit code 0, "1"
snmpget of interface 77, version 2c: exit code 0, "No Such Instance currently exists at this OID"
snmpwalk of interface 77, version 2c: exit code 0, "No Such Instance currently exists at this OID"'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
