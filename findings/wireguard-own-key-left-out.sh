#!/bin/sh
# A WireGuard peer that has the interface's own key is left out without a word.
#
# Guess:   `wg set` refuses a node's own key as a peer, or lists it, which would matter for one file of peers that all
#          nodes share.
# Package: wireguard-tools 1.0.20210914-1+b1, wireguard-go 0.0.20220316-1+b4 (Debian 12).
# Happens: the exit code is 0, and there is no such peer: its addresses and its endpoint are gone. A peer that is
#          there already is removed when the interface gets its key, and does not come back with another key.
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
alone() { unshare --mount --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces here"

[ -c /dev/net/tun ] || skip "no /dev/net/tun"
# shellcheck disable=SC2016
seen=$(alone '
    mount -t tmpfs none /run
    mkdir /run/wireguard
    cd "$0"
    umask 077
    WG_PROCESS_FOREGROUND=1 wireguard-go wg0 >log 2>&1 &
    until [ -S /run/wireguard/wg0.sock ]; do sleep 0.1; done
    for node in a b c; do
        wg genkey >"$node.key"
        wg pubkey <"$node.key" >"$node.pub"
    done
    show() {
        echo "$1: peers $(wg show wg0 peers | sed "s,$(cat a.pub),a,; s,$(cat b.pub),b,; s,$(cat c.pub),c," | sort |
            paste -sd " ")"
    }
    wg set wg0 private-key a.key
    at=0
    for node in a b c; do
        at=$((at + 1))
        wg set wg0 peer "$(cat "$node.pub")" allowed-ips "10.0.0.$at/32" && echo "peer $node: exit code 0"
    done
    show "node a"
    wg set wg0 private-key b.key
    show "with the key of b"
    wg set wg0 private-key a.key
    show "with the key of a again"' "$tmp")
expected='peer a: exit code 0
peer b: exit code 0
peer c: exit code 0
node a: peers b c
with the key of b: peers c
with the key of a again: peers c'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
