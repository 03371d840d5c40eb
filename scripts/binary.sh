#!/bin/sh
# Prints where cargo puts the release binary.
set -eu
cd "$(dirname -- "$0")/.."
target=${CARGO_TARGET_DIR:-target}
printf '%s/release/netloom\n' "$target"
