#!/bin/sh
# A Mininet link of 2000 Mbit/s has no limit at all.
#
# Guess:   bw=2000 limits it to 2000 Mbit/s, or is refused.
# Package: mininet 2.3.0-1 (Debian 12), its TCIntf.
# Happens: a message says that the limit is ignored, and no command of tc follows, nor an error: the link has none. Up
#          to 1000 there is one.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    mininet=2.3.0-1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
PYTHONPATH=$tmp/root/usr/lib/python3/dist-packages
export PYTHONPATH

# The commands of tc that the interface would run.
seen=$(python3 -u - 2>&1 <<'PYTHON'
from mininet.link import TCIntf

class Interface(TCIntf):
    def __init__(self):
        self.name = "h1-eth0"

for rate in (999, 1000, 2000):
    commands, _ = Interface().bwCmds(bw=rate)
    rates = [command.split(" rate ")[1].split()[0] for command in commands if " rate " in command]
    print("bw=%d: %s" % (rate, "htb " + rates[0] if rates else "no command"))
PYTHON
)
expected='bw=999: htb 999.000000Mbit
bw=1000: htb 1000.000000Mbit
Bandwidth limit 2000 is outside supported range 0..1000 - ignoring
bw=2000: no command'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
