#!/bin/sh
# In BIRD `net ~ 10.0.0.0/8` matches all prefixes in 10.0.0.0/8, and `net ~ [10.0.0.0/8]` that one alone.
#
# Guess:   a set of one prefix matches as the prefix itself does.
# Package: bird2 2.0.12-7 (Debian 12).
# Happens: without brackets `~` asks whether the one lies in the other, with brackets whether it is a member of the set;
#          [10.0.0.0/8+] is as without.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    bird2=2.0.12-7 >"$tmp/apt" 2>&1 ||
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

cat >"$tmp/conf" <<'CONF'
router id 192.0.2.1;
protocol device {}
CONF
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    bird -d -c conf -s ctl -P pid >log 2>&1 &
    until birdc -s ctl show status >status 2>&1; do sleep 0.1; done
    for set in 10.0.0.0/8 "[10.0.0.0/8]" "[10.0.0.0/8+]"; do
        for prefix in 10.0.0.0/8 10.1.0.0/16; do
            echo "$prefix ~ $set: $(birdc -s ctl "eval $prefix ~ $set" | tail -n 1)"
        done
    done
    kill "$!"' "$tmp") || { cat "$tmp/log"; exit 1; }
expected='10.0.0.0/8 ~ 10.0.0.0/8: TRUE
10.1.0.0/16 ~ 10.0.0.0/8: TRUE
10.0.0.0/8 ~ [10.0.0.0/8]: TRUE
10.1.0.0/16 ~ [10.0.0.0/8]: FALSE
10.0.0.0/8 ~ [10.0.0.0/8+]: TRUE
10.1.0.0/16 ~ [10.0.0.0/8+]: TRUE'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
