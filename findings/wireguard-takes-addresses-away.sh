#!/bin/sh
# Giving a WireGuard peer the addresses of another one takes them from that one, without a word.
#
# Guess:   `wg set` refuses addresses that another peer has, or both have them.
# Package: wireguard-tools 1.0.20210914-1+b1, wireguard-go 0.0.20220316-1+b4 (Debian 12).
# Happens: the last one has them, the first one `(none)`. Exit code 0. So it is within one file for `wg setconf`,
#          where the order of the peers decides.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    wireguard-tools=1.0.20210914-1+b1 wireguard-go=0.0.20220316-1+b4 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH

[ "$(id -u)" -eq 0 ] || skip "an interface of wireguard-go needs root"
[ -c /dev/net/tun ] || skip "no /dev/net/tun"
alone() { unshare --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"

# shellcheck disable=SC2016
seen=$(alone '
    mount -t tmpfs none /run
    mkdir /run/wireguard
    cd "$0"
    WG_PROCESS_FOREGROUND=1 wireguard-go wg0 >log 2>&1 &
    until [ -S /run/wireguard/wg0.sock ]; do sleep 0.1; done
    first=$(wg genkey | wg pubkey)
    second=$(wg genkey | wg pubkey)
    show() { wg show wg0 allowed-ips | sed "s,$first,first,; s,$second,second,; s/\t/ /" | sort | paste -sd ,; }
    wg set wg0 peer "$first" allowed-ips 10.0.0.0/24
    wg set wg0 peer "$second" allowed-ips 10.0.0.0/24 && echo "second peer: exit code 0"
    echo "by wg set: $(show)"
    echo "[Interface]" >file
    for peer in "$second" "$first"; do
        printf "[Peer]\nPublicKey = %s\nAllowedIPs = 10.0.0.0/24\n" "$peer" >>file
    done
    wg setconf wg0 file && echo "file: exit code 0"
    echo "by wg setconf: $(show)"' "$tmp")
expected='second peer: exit code 0
by wg set: first (none),second 10.0.0.0/24
file: exit code 0
by wg setconf: first 10.0.0.0/24,second (none)'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
