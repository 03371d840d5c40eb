#!/bin/sh
# Measures the lab of two-sites.yaml hop by hop and compares with what its lossy link knows itself.
#
#     examples/measure-two-sites.sh [SECONDS]
#
# Brings the lab up under a name and in a runtime directory of its own, makes the link between the routers
# lose 3 % in both directions, sends datagrams from h1 to web that are sent back, and runs
# `netloom measure h1 web` meanwhile. The hop that is named must be that link, with exactly the count of
# its wire: exit 1 if not. Everything is removed at the end, however it ends. Needs root, ip and python3;
# NETLOOM is the binary (else it is looked for in PATH).
set -eu

seconds=${1:-20}
netloom=${NETLOOM:-netloom}
here=$(cd "$(dirname "$0")" && pwd)
link=r1:eth1--r2:eth0
lab=measure-$$
work=$(mktemp -d)
export NETLOOM_RUNTIME_DIR="$work/run"
mkdir -m 700 "$NETLOOM_RUNTIME_DIR"

clean() {
    code=$?
    trap - EXIT INT TERM HUP
    for pid in ${measure:-} ${echo:-}; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    "$netloom" down "$lab" >/dev/null 2>&1 || true
    rm -rf "$work"
    exit "$code"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

# What the wire has lost so far: from r1 to r2, and back.
ledger() {
    "$netloom" link show "$link" --json | python3 -c '
import json, sys
for direction in json.load(sys.stdin)["wire"]["directions"]: print(direction["lost"].get("loss", 0))'
}

# The link's measurements for packets in this direction.
measured() {
    sed -n "s/^lost: \([0-9]*\) of [0-9]* packets on link $link ($1)\$/\1/p" "$work/measured"
}

"$netloom" up "$here/two-sites.yaml" --name "$lab"

# The wire counts every frame. So nothing but the datagrams is to cross the link: neighbours are known
# for good, and IPv6 is silent.
"$netloom" exec h1 -- ping -4 -c 1 -W 5 web >/dev/null
for end in r1:eth1 r2:eth0; do
    "$netloom" exec "${end%:*}" -- sh -c "
        echo 1 >/proc/sys/net/ipv6/conf/${end#*:}/disable_ipv6
        ip -4 neigh show | while read -r to _ dev _ mac _; do
            ip neigh replace \$to dev \$dev lladdr \$mac nud permanent
        done"
done
"$netloom" link set "$link" --loss 3%

"$netloom" exec web -- python3 -c '
import socket
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.bind(("0.0.0.0", 5002))
while True: at.sendto(*at.recvfrom(2000))' &
echo=$!

"$netloom" measure h1 web -4 --for "${seconds}s" --quiet >"$work/measured" 2>&1 &
measure=$!
# It says what it measures when the first block has begun.
until [ -s "$work/measured" ]; do
    kill -0 "$measure" 2>/dev/null || { wait "$measure" || true; cat "$work/measured"; exit 1; }
    sleep 0.1
done

before=$(ledger)
"$netloom" exec h1 -- python3 -c '
import socket, sys, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect(("web", 5002))
end, sent = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    to.send(bytes(200))
    sent += 1
    time.sleep(0.002)
print(sent, "datagrams sent")' "$((seconds - 3))"
wait "$measure" || { measure=; cat "$work/measured"; exit 1; }
measure=
after=$(ledger)

cat "$work/measured"
echo
status=0
for way in "h1 -> web" "web -> h1"; do
    lost=$(($(echo "$after" | head -n 1) - $(echo "$before" | head -n 1)))
    before=$(echo "$before" | tail -n +2)
    after=$(echo "$after" | tail -n +2)
    found=$(measured "$way")
    if [ "$found" = "$lost" ] && [ "$(grep -c "^lost: [0-9].*($way)" "$work/measured")" = 1 ]; then
        echo "$way: measured $found on $link, its wire lost $lost: the same"
    else
        echo "$way: measured ${found:-nothing} on $link, its wire lost $lost: DIFFERENT" >&2
        status=1
    fi
done
exit "$status"
