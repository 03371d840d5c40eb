#!/bin/sh
# A volume of a Kathara lab is read-only, and its path is not the lab's.
#
# Guess:   `pc1[volume]="data|/srv"` binds the folder `data` of the lab, writable as Docker's `-v` has it.
# Package: kathara 3.8.3 (PyPI).
# Happens: without a third part the mode is `ro`. A relative path begins where kathara was called, not at lab.conf: with
#          `kathara lstart -d LAB` from elsewhere it is another folder.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps kathara==3.8.3 fs==2.4.16 appdirs==1.4.4 \
    six==1.17.0 setuptools==65.5.0 binaryornot==0.4.4 chardet==5.2.0 requests==2.32.3 urllib3==2.2.3 idna==3.10 \
    certifi==2024.8.30 charset-normalizer==3.4.0 >"$tmp/pip" 2>&1 || skip "$(tail -n 1 "$tmp/pip")"

mkdir "$tmp/lab" "$tmp/lab/data" "$tmp/elsewhere"
cat >"$tmp/lab/lab.conf" <<'LAB'
pc1[0]="A"
pc1[volume]="data|/srv"
pc2[0]="A"
pc2[volume]="data|/srv|rw"
LAB
cat >"$tmp/read.py" <<'PYTHON'
import sys
from Kathara.parser.netkit.LabParser import LabParser

for name, machine in LabParser.parse(sys.argv[1]).machines.items():
    for host, guest in machine.meta["volumes"].items():
        print("%s: %s -> %s, %s" % (name, host, guest["guest_path"], guest["mode"]))
PYTHON
seen=$(cd "$tmp/elsewhere" && "$tmp/venv/bin/python" "$tmp/read.py" ../lab | sed "s|$tmp|...|")
expected='pc1: .../elsewhere/data -> /srv, ro
pc2: .../elsewhere/data -> /srv, rw'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
