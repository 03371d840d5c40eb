#!/bin/sh
# Prints where cargo puts the binary: binary.sh [release|debug]
set -eu
cd "$(dirname -- "$0")/.."
target=${CARGO_TARGET_DIR:-target}
printf '%s/%s/netloom\n' "$target" "${1:-release}"
