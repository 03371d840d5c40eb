#!/usr/bin/env bash
# Tests packages in a bare Debian: packages-test.sh [--repeat] [SUITE...]      (bookworm)
#
# Packages are those of dist/, which `make packages` makes; those of an earlier version are made of the same sources, without
# optimisation. lintian reads them here. In the root, which scripts/bare.sh makes, tests/packages/inside.sh installs, uses,
# upgrades, downgrades and removes them, also while labs run.
#
# --repeat builds the packages once more, in a clone in another folder, and compares all bytes.
set -euo pipefail

cd "$(dirname "$0")/.."
repeat=no
[ "${1:-}" != --repeat ] || { repeat=yes; shift; }
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(bookworm)
dist=$PWD/dist
earlier=0.1.0
failed=0

say() { printf 'packages: %s\n' "$*"; }

[ -e "$dist/SHA256SUMS" ] || { say "dist/ has no packages; first run: make packages" >&2; exit 1; }
folder=$(mktemp -d /var/tmp/netloom-packages-XXXXXX)
trap 'rm -rf "$folder"' EXIT

(cd "$dist" && sha256sum --check --quiet SHA256SUMS)
if [ "$repeat" = yes ]; then
    git clone -q . "$folder/elsewhere"
    # A folder of builds that both share would hide paths in it.
    (cd "$folder/elsewhere" && env -u CARGO_TARGET_DIR cargo xtask packages --out "$folder/again")
    if diff "$dist/SHA256SUMS" "$folder/again/SHA256SUMS"; then
        say "ok: built again in $folder: the same bytes"
    else
        say "failed: built again in $folder: other bytes (above)"
        failed=1
    fi
fi

# Those of the sums alone: dist/ may have packages of other versions, too.
mkdir "$folder/now"
(cd "$dist" && cut -c 67- SHA256SUMS | xargs cp -t "$folder/now" SHA256SUMS)

# A tag is a failure, whatever its severity, unless packaging/debian says why it does not hold.
if lintian --fail-on error,warning,info --display-info "$folder"/now/*.deb; then
    say "ok: lintian"
else
    say "failed: lintian"
    failed=1
fi

cargo xtask packages --dev --as "$earlier" --out "$folder/before"
chmod 755 "$folder"
for suite in "${suites[@]}"; do
    NETLOOM_BARE_SHARE=$folder bash scripts/bare.sh "$suite" "bash tests/packages/inside.sh '$folder'" || failed=1
done
exit "$failed"
