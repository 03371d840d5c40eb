#!/bin/sh
# In nftables a SYN with ACK matches `tcp flags syn` and `tcp flags != syn` both.
#
# Guess:   the two are opposites, as `tcp dport 80` and `tcp dport != 80` are: a packet matches one of them.
# Package: nftables 1.0.6-2+deb12u2, iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: without an operator a flag asks whether its bit is set; `!=` compares all flags with it, and so does `==`.
#          The answer of a handshake (SYN and ACK) matches `syn` and `!= syn`, and a rule for new connections takes
#          it, too. `! syn` is the opposite of `syn`.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    nftables=1.0.6-2+deb12u2 iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --mount-proc --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

alone 'nft add table ip t' 2>/dev/null || skip "no nftables in this kernel"

# Each packet of one connection passes the chain once, as it is sent.
cat >"$tmp/rules" <<'NFT'
table ip t {
    chain c {
        type filter hook output priority 0
        tcp flags syn / syn,ack jump a
        tcp flags & (syn | ack) == syn | ack jump b
    }
    chain a {
        tcp flags syn counter comment "SYN: syn"
        tcp flags != syn counter comment "SYN: != syn"
        tcp flags ! syn counter comment "SYN: ! syn"
        tcp flags == syn counter comment "SYN: == syn"
    }
    chain b {
        tcp flags syn counter comment "SYN and ACK: syn"
        tcp flags != syn counter comment "SYN and ACK: != syn"
        tcp flags ! syn counter comment "SYN and ACK: ! syn"
        tcp flags == syn counter comment "SYN and ACK: == syn"
    }
}
NFT
cat >"$tmp/connect.py" <<'PYTHON'
import socket

with socket.create_server(("127.0.0.1", 8080)) as server:
    with socket.create_connection(("127.0.0.1", 8080)):
        server.accept()[0].close()
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    nft -f rules
    python3 connect.py
    nft list ruleset | sed -n "s/.*counter packets \([0-9]*\) .*comment \"\(.*\)\"/\2 \1/p"' "$tmp")
expected='SYN: syn 1
SYN: != syn 0
SYN: ! syn 0
SYN: == syn 1
SYN and ACK: syn 1
SYN and ACK: != syn 1
SYN and ACK: ! syn 0
SYN and ACK: == syn 0'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
