#!/bin/sh
# unbound says that an address of 10.0.0.0/8 has no name, and does not ask the server that knows it.
#
# Guess:   with `forward-zone: name: "."` each question that unbound has no answer for goes to that server, also for
#          the name of an address.
# Package: unbound 1.17.1-2+deb12u4, dnsmasq-base 2.90-4~deb12u2, bind9-dnsutils 1:9.18.49-1~deb12u3 (Debian 12).
# Happens: names are forwarded, the reverse zones of private networks and of documentation are unbound's own and
#          empty: NXDOMAIN. (198.18.0.0/15, for benchmarks, is forwarded.) Each has to be named (`local-zone:
#          "10.in-addr.arpa." nodefault`), or `unblock-lan-zones: yes` set.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    unbound=1.17.1-2+deb12u4 libevent-2.1-7=2.1.12-stable-8+deb12u1 'dnsmasq-base=2.90-4~deb12u2' \
    'bind9-dnsutils=1:9.18.49-1~deb12u3' 'bind9-host=1:9.18.49-1~deb12u3' 'bind9-libs=1:9.18.49-1~deb12u3' \
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

# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    dnsmasq --keep-in-foreground --conf-file=/dev/null --port=5301 --listen-address=127.0.0.1 --bind-interfaces \
        --no-resolv --no-hosts --user=root --pid-file= \
        --host-record=a.lab,10.0.0.9 --host-record=b.lab,192.0.2.9 --host-record=c.lab,198.18.0.9 >log 2>&1 &
    ask() { dig @127.0.0.1 -p "$1" +tries=1 +time=5 "$2" "$3" 2>>log; }
    until ask 5301 a.lab A | grep -q 10.0.0.9; do sleep 0.1; done
    for setting in "verbosity: 0" "unblock-lan-zones: yes" "local-zone: \"10.in-addr.arpa.\" nodefault"; do
        cat >conf <<CONF
server:
    interface: 127.0.0.1@5300
    username: ""
    chroot: ""
    directory: "."
    pidfile: ""
    use-syslog: no
    module-config: "iterator"
    do-not-query-localhost: no
    $setting
forward-zone:
    name: "."
    forward-addr: 127.0.0.1@5301
CONF
        unbound -d -c conf 2>>log &
        unbound=$!
        until ask 5300 a.lab A | grep -q 10.0.0.9; do sleep 0.1; done
        for name in 9.0.0.10 9.2.0.192 9.0.18.198; do
            answer=$(ask 5300 "$name.in-addr.arpa" PTR | sed -n "s/.*status: \([A-Z]*\),.*/\1/p; s/.*\tPTR\t//p" |
                paste -sd " ")
            echo "$setting: $name.in-addr.arpa $answer"
        done
        kill "$unbound"
        wait "$unbound" || :
    done' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='verbosity: 0: 9.0.0.10.in-addr.arpa NXDOMAIN
verbosity: 0: 9.2.0.192.in-addr.arpa NXDOMAIN
verbosity: 0: 9.0.18.198.in-addr.arpa NOERROR c.lab.
unblock-lan-zones: yes: 9.0.0.10.in-addr.arpa NOERROR a.lab.
unblock-lan-zones: yes: 9.2.0.192.in-addr.arpa NOERROR b.lab.
unblock-lan-zones: yes: 9.0.18.198.in-addr.arpa NOERROR c.lab.
local-zone: "10.in-addr.arpa." nodefault: 9.0.0.10.in-addr.arpa NOERROR a.lab.
local-zone: "10.in-addr.arpa." nodefault: 9.2.0.192.in-addr.arpa NXDOMAIN
local-zone: "10.in-addr.arpa." nodefault: 9.0.18.198.in-addr.arpa NOERROR c.lab.'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
