#!/bin/sh
# dpkt reads the times of all interfaces of a pcapng file by the resolution of the first one.
#
# Guess:   each packet's time is read by the resolution of its own interface (if_tsresol), as the format says.
# Package: dpkt 1.9.8 (PyPI).
# Happens: where an interface of nanoseconds follows one of microseconds, its packets' times are a thousand times too
#          large: second 1700000001 is 1700000001000. In the other order they are too small. Nothing is said.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps dpkt==1.9.8 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
seen=$(venv/bin/python - <<'PYTHON'
import io
import struct

import dpkt

def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

# An interface whose times are of 10^-digits seconds.
def interface(digits):
    return block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3xI", 9, 1, digits, 0))

def packet(number, digits, seconds):
    frame = bytes.fromhex("02000000000202000000000188b5") + bytes(46)
    time = seconds * 10 ** digits
    return block(6, struct.pack("<IIIII", number, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame)) + frame)

for first, second in ((6, 6), (6, 9), (9, 6)):
    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + interface(first) + interface(second)
    data += packet(0, first, 1700000000) + packet(1, second, 1700000001)
    times = ", ".join("%.0f" % time for time, _ in dpkt.pcapng.Reader(io.BytesIO(data)))
    print("10^-%d, 10^-%d: %s" % (first, second, times))
PYTHON
)
expected='10^-6, 10^-6: 1700000000, 1700000001
10^-6, 10^-9: 1700000000, 1700000001000
10^-9, 10^-6: 1700000000, 1700000'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
