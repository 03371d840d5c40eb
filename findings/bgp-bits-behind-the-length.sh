#!/bin/sh
# The bits behind a BGP prefix's length, which mean nothing, are a part of it in bgpdump, and stop mrtparse.
#
# Guess:   10.1.31.0/20 in an update is read as 10.1.16.0/20: RFC 4271, section 4.3, says that the trailing bits are
#          irrelevant.
# Package: bgpdump 1.6.2-2 (Debian 12), mrtparse 2.2.0 (PyPI).
# Happens: bgpdump prints 10.1.31.0/20, so one prefix has several names; mrtparse takes the message for one with path
#          identifiers, and reports that it ends too early. Where the bits are 0 both read it.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    bgpdump=1.6.2-2 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps mrtparse==2.2.0 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
export HOME="$tmp"
cat >write.py <<'PYTHON'
import struct
import sys

attributes = bytes.fromhex("400101004002040201fbf44003040a000001")
for name, third in (("zero", 0x10), ("others", 0x1F)):
    body = struct.pack(">HH", 0, len(attributes)) + attributes + bytes([20, 10, 1, third])
    update = b"\xff" * 16 + struct.pack(">HB", 19 + len(body), 2) + body
    record = struct.pack(">HHHH", 64500, 64501, 0, 1) + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + update
    with open(name, "wb") as file:
        file.write(struct.pack(">IHHI", 1700000000, 16, 1, len(record)) + record)
PYTHON
cat >read.py <<'PYTHON'
import sys

import mrtparse

for entry in mrtparse.Reader(sys.argv[1]):
    if entry.err:
        print("mrtparse, %s: %s" % (sys.argv[1], entry.err_msg))
    else:
        prefix = entry.data["bgp_message"]["nlri"][0]
        print("mrtparse, %s: %s/%d" % (sys.argv[1], prefix["prefix"], prefix["length"]))
PYTHON
seen=$(
    python3 write.py
    for name in zero others; do
        echo "bgpdump, $name: $(bgpdump -m "$name" 2>>log | cut -d '|' -f 6)"
        venv/bin/python read.py "$name" 2>>log
    done
) || { cat log; exit 1; }
expected='bgpdump, zero: 10.1.16.0/20
mrtparse, zero: 10.1.16.0/20
bgpdump, others: 10.1.31.0/20
mrtparse, others: Insufficient buffer 0 < 1 byte'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
