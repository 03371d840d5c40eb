#!/bin/sh
# sockperf's ping-pong latency is half of the round trip.
#
# Guess:   the latency of a request and its answer is the time until the answer comes, as ping has it.
# Package: sockperf 3.7-1 (Debian 12).
# Happens: where each message takes 50 ms one way and nothing the other, it says 25 ms; the line calls it "Latency",
#          and the round trip needs `--full-rtt`. Where the two ways differ it is the time of neither.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    sockperf=3.7-1 >"$tmp/apt" 2>&1 ||
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

# It hands each message to the server 50 ms later, and the answer back at once.
cat >"$tmp/late.py" <<'PYTHON'
import select
import socket
import time

front, back = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
front.bind(("127.0.0.1", 11112))
back.connect(("127.0.0.1", 11111))
waiting, client = [], None
while True:
    pause = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    ready = select.select([front, back], [], [], pause)[0]
    if front in ready:
        message, client = front.recvfrom(2000)
        waiting.append((time.monotonic() + 0.05, message))
    if back in ready:
        front.sendto(back.recv(2000), client)
    while waiting and waiting[0][0] <= time.monotonic():
        back.send(waiting.pop(0)[1])
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    cd "$0"
    ip link set lo up
    sockperf server -i 127.0.0.1 -p 11111 >log 2>&1 &
    until grep -qi ":2B67 " /proc/net/udp; do sleep 0.1; done
    python3 late.py &
    until grep -qi ":2B68 " /proc/net/udp; do sleep 0.1; done
    show() {
        name=$1
        shift
        sockperf ping-pong -i 127.0.0.1 -p 11112 -t 3 "$@" >out 2>&1
        what=$(sed -n "s/.*Summary: \(.*\) is [0-9.]* usec.*/\1/p" out)
        microseconds=$(sed -n "s/.*Summary: .* is \([0-9]*\)[.].*/\1/p" out)
        if [ "$microseconds" -ge 45000 ]; then is="50 ms"; else is="25 ms"; fi
        echo "$name: $what is $is"
    }
    show ping-pong
    show "ping-pong --full-rtt" --full-rtt' "$tmp") || { cat "$tmp/log" "$tmp/out"; exit 1; }
expected='ping-pong: Latency is 25 ms
ping-pong --full-rtt: Round trip is 50 ms'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
