#!/bin/sh
# A match of os-ken for `("10.0.0.0", 24)` is for a quarter of all addresses.
#
# Guess:   the number is a prefix's length, as in "10.0.0.0/24", or is refused: a mask is given as text.
# Package: os-ken 4.2.2 (PyPI).
# Happens: it becomes the mask 0.0.0.24, and what of the address is not under it is cut off: 0.0.0.0 by 0.0.0.24, and
#          nothing is said. "10.0.0.0/24" as one text, and ("10.0.0.0", "255.255.255.0"), are what one wants.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps os-ken==4.2.2 idna==3.20 \
    netaddr==1.3.0 oslo.config==10.7.0 packaging==26.4 pbr==7.1.3 rfc3986==2.0.0 setuptools==65.5.0 stevedore==5.10.0 \
    >"$tmp/pip" 2>&1 || skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
export HOME="$tmp"
seen=$(venv/bin/python - 2>err <<'PYTHON'
import ipaddress

from os_ken.ofproto import ofproto_v1_3_parser as parser

for given in ("10.0.0.0/24", ("10.0.0.0", "255.255.255.0"), ("10.0.0.0", 24)):
    match = parser.OFPMatch(eth_type=0x0800, ipv4_dst=given)
    sent = bytearray()
    match.serialize(sent, 0)
    # Type, length, the field of the EtherType (6 bytes), the head of this one (4 bytes), value and mask.
    value, mask = sent[14:18], sent[18:22]
    print("%s: %s by %s" % (given, ipaddress.ip_address(bytes(value)), ipaddress.ip_address(bytes(mask))))
PYTHON
) || { cat err; exit 1; }
expected="10.0.0.0/24: 10.0.0.0 by 255.255.255.0
('10.0.0.0', '255.255.255.0'): 10.0.0.0 by 255.255.255.0
('10.0.0.0', 24): 0.0.0.0 by 0.0.0.24"

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
