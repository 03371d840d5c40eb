#!/bin/sh
# dnsmasq says NXDOMAIN of a name that it has an address for, when asked for another type.
#
# Guess:   with `local=/lab/`, who asks for the IPv6 address of a name in `address=/web.lab/10.0.0.9` is told that there
#          is none (NOERROR, no records), as with `host-record=`.
# Package: dnsmasq-base 2.90-4~deb12u2, bind9-dnsutils 1:9.18.49-1~deb12u3 (Debian 12).
# Happens: it is NXDOMAIN, as if the name was not there. `local=/web.lab/` beside the `address=` makes it NOERROR.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    dnsmasq-base=2.90-4~deb12u2 bind9-dnsutils=1:9.18.49-1~deb12u3 \
    bind9-libs=1:9.18.49-1~deb12u3 >"$tmp/apt" 2>&1 ||
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

# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    port=5300
    show() {
        port=$((port + 1))
        dnsmasq --keep-in-foreground --conf-file=/dev/null --user= --group= --pid-file= --no-resolv --no-hosts \
            --port "$port" --local=/lab/ "$@" >log 2>&1 &
        answers=
        for type in A AAAA; do
            answer=
            while [ -z "$answer" ]; do
                answer=$(dig @127.0.0.1 -p "$port" +tries=1 +timeout=1 web.lab "$type" |
                    sed -n "s/.*status: \([A-Z]*\),.*/\1/p; s/.*ANSWER: \([0-9]*\),.*/\1/p" | paste -sd " ")
            done
            answers="$answers${answers:+,}$type $answer"
        done
        echo "$*: $answers"
        kill "$!"
    }
    show --host-record=web.lab,10.0.0.9
    show --address=/web.lab/10.0.0.9
    show --address=/web.lab/10.0.0.9 --local=/web.lab/' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='--host-record=web.lab,10.0.0.9: A NOERROR 1,AAAA NOERROR 0
--address=/web.lab/10.0.0.9: A NOERROR 1,AAAA NXDOMAIN 0
--address=/web.lab/10.0.0.9 --local=/web.lab/: A NOERROR 1,AAAA NOERROR 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
