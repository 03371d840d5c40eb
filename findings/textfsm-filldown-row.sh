#!/bin/sh
# A TextFSM template with Filldown makes a row more than its rules record.
#
# Guess:   two `-> Record` give two rows; Filldown only keeps a value for the next ones.
# Package: textfsm 2.1.0 (PyPI).
# Happens: at the end of the input there is another Record of its own, and the kept value is enough for a row: VLAN 2
#          has a port without a name. `Required` at the other value prevents it.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps textfsm==2.1.0 >"$tmp/pip" 2>&1 ||
    skip "$(tail -n 1 "$tmp/pip")"

cd "$tmp"
export HOME="$tmp"
seen=$(venv/bin/python - <<'PYTHON'
import io

import textfsm

TEMPLATE = r"""Value Filldown VLAN (\d+)
Value %sPORT (\S+)

Start
  ^VLAN ${VLAN}
  ^ port ${PORT} -> Record
"""
for options in ("", "Required "):
    rows = textfsm.TextFSM(io.StringIO(TEMPLATE % options)).ParseText("VLAN 1\n port a\nVLAN 2\n port b\n")
    print("%s: %s" % (options.strip() or "without", rows))
PYTHON
)
expected="without: [['1', 'a'], ['2', 'b'], ['2', '']]
Required: [['1', 'a'], ['2', 'b']]"

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
