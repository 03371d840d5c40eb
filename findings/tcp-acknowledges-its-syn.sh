#!/bin/sh
# `ss -i` says that 1001 bytes are acknowledged of a connection that sent 1000.
#
# Guess:   bytes_acked is what the far end has of the sender's data: 1000, as bytes_sent here and bytes_received there.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: the connecting side counts its SYN as a byte: 1001. After its end of data (FIN) it is 1002, and the far end
#          has received 1001. What is on its way, bytes_sent less bytes_acked, is -1 in an idle connection.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no network namespace for this user"
command -v python3 >/dev/null || skip "no python3"

cat >"$tmp/connection.py" <<'PYTHON'
import re
import socket
import subprocess

FIN_WAIT2 = 5
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
there = server.accept()[0]

def show(title):
    words = []
    for name, end in (("sender", "dport"), ("receiver", "sport")):
        choice = "%s = :%d" % (end, server.getsockname()[1])
        text = subprocess.run(["ss", "-Hint", "state", "connected", choice], stdout=subprocess.PIPE, text=True).stdout
        words += ["%s %s" % (name, word) for word in re.findall(r"bytes_(?:sent|acked|received):[0-9]+", text)]
    print("%s: %s" % (title, ", ".join(words)))

def info(offset, length):
    return int.from_bytes(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[offset:offset + length], "little")

client.sendall(bytes(1000))
there.recv(1000, socket.MSG_WAITALL)
while info(24, 4):  # tcpi_unacked
    pass
show("1000 bytes")
client.shutdown(socket.SHUT_WR)
while info(0, 1) != FIN_WAIT2:
    pass
show("and the end")
PYTHON
# shellcheck disable=SC2016
seen=$(alone 'ip link set lo up; python3 "$1"' sh "$tmp/connection.py")
expected='1000 bytes: sender bytes_sent:1000, sender bytes_acked:1001, receiver bytes_received:1000
and the end: sender bytes_sent:1000, sender bytes_acked:1002, receiver bytes_received:1001'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
