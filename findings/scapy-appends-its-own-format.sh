#!/bin/sh
# scapy appends to a capture file in its own format, whatever the file's is.
#
# Guess:   `wrpcap(FILE, packet, append=True)` writes as the file's header says (nanoseconds, byte order), or refuses.
# Package: scapy 2.8.0 (PyPI).
# Happens: it adds a record of microseconds in this machine's byte order: in a file of nanoseconds its time is wrong by
#          up to a second, and in one of the other byte order the record's numbers are read as others. Nothing is said.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps scapy==2.8.0 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
export HOME="$tmp"
seen=$(venv/bin/python - 2>log <<'PYTHON'
import struct
import sys

from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

FRAME = bytes.fromhex("02000000000202000000000188b5") + bytes(46)
own, other = ("<", ">") if sys.byteorder == "little" else (">", "<")

for name, order, magic, fraction in (
    ("microseconds", own, 0xA1B2C3D4, 250000),
    ("nanoseconds", own, 0xA1B23C4D, 250000000),
    ("other byte order", other, 0xA1B2C3D4, 250000),
):
    with open("file.pcap", "wb") as file:
        file.write(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1))
        file.write(struct.pack(order + "IIII", 1700000000, fraction, 60, 60) + FRAME)
    packet = Ether(FRAME)
    packet.time = 1700000001.25
    wrpcap("file.pcap", packet, append=True)
    with open("file.pcap", "rb") as file:
        record = file.read()[24 + 16 + 60:]
    second, part, length = struct.unpack(order + "III", record[:12])
    print("%s: the new record has second %d, fraction %d, %d bytes" % (name, second, part, length))
PYTHON
) || { cat log; exit 1; }
expected='microseconds: the new record has second 1700000001, fraction 250000, 60 bytes
nanoseconds: the new record has second 1700000001, fraction 250000, 60 bytes
other byte order: the new record has second 32592741, fraction 2429551360, 1006632960 bytes'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
