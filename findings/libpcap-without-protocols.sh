#!/bin/sh
# Without /etc/protocols libpcap takes every name of a protocol for protocol 0.
#
# Guess:   on a minimal Debian, which has no netbase and so no /etc/protocols, `ip proto \tcp` is refused: unknown protocol.
# Package: tcpdump 4.99.3-1 with libpcap 1.10.3-1 (Debian 12).
# Happens: it compiles, and compares with 0: a filter that keeps no packet of TCP, without a word. `ip proto no-such` compiles,
#          too. With an empty /etc/protocols both are refused. `tcp` and `ip proto 6` are as always.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

own=--mount
[ "$(id -u)" -eq 0 ] || own='--user --map-root-user --mount'
# Unquoted on purpose: several flags.
# shellcheck disable=SC2086
unshare $own true 2>"$tmp/why" || skip "$(cat "$tmp/why")"

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/usr/bin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

# In a mount namespace of its own: an /etc without files, then one with an empty list.
cat >"$tmp/look" <<'SCRIPT'
mount -t tmpfs etc /etc
# The comparison with the protocol's number, or the refusal.
look() { echo "$1, $2: $(tcpdump -y EN10MB -d "$2" 2>&1 | sed -n -e 's/.*jeq *\(#0x[0-9a-f]\{1,2\}\) .*/\1/p' -e '/^tcpdump:/p')"; }
look 'no file' 'ip proto \tcp'
look 'no file' 'ip proto no-such'
look 'no file' 'ip proto 6'
: >/etc/protocols
look 'empty file' 'ip proto \tcp'
SCRIPT
# shellcheck disable=SC2086
seen=$(unshare $own bash "$tmp/look")
expected='no file, ip proto \tcp: #0x0
no file, ip proto no-such: #0x0
no file, ip proto 6: #0x6
empty file, ip proto \tcp: tcpdump: unknown ip proto '"'tcp'"

printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
