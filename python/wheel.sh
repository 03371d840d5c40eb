#!/bin/sh
# Builds the Python package's wheel and prints its path.
#
#   wheel.sh [PACKAGE [FOLDER]]     of this folder, into dist/ beside it
#
# Its bytes depend on the sources alone: `make peers` installs the one version of flit-core that pyproject.toml names, and
# files in the wheel have the earliest time that a ZIP file can have.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
package=${1:-$root/python}
folder=${2:-$root/dist}
python=/usr/local/lib/netloom-peers/flit-core/bin/python

[ -x "$python" ] || { echo "wheel: flit-core is missing; make peers installs it" >&2; exit 1; }
mkdir -p "$folder"
folder=$(CDPATH='' cd -- "$folder" && pwd)
cd "$package"
export SOURCE_DATE_EPOCH=315532800 PYTHONDONTWRITEBYTECODE=1
name=$("$python" -c 'import sys; from flit_core.buildapi import build_wheel; print(build_wheel(sys.argv[1]))' "$folder")
chmod 644 "$folder/$name"
echo "$folder/$name"
