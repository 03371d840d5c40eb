#!/bin/sh
# Runs the scripts of findings/, or those whose names are given, and tells which findings still hold.
#
#   findings.sh [NAME...]
#
# Exit code 1 if the behaviour of one changed; one that cannot run here says why, and does not count.
set -eu

cd "$(dirname -- "$0")/../findings"
[ $# -gt 0 ] || set -- *.sh

passed=0 changed=0 absent=0
for finding; do
    finding=${finding%.sh}
    [ -f "$finding.sh" ] || { echo "findings: no findings/$finding.sh" >&2; exit 2; }
    echo "== $finding: $(sed -n '2s/^# //p' "$finding.sh")"
    code=0
    sh "$finding.sh" </dev/null || code=$?
    case $code in
    0) passed=$((passed + 1)); echo "-- still so" ;;
    77) absent=$((absent + 1)) ;;
    130) exit 130 ;;
    *) changed=$((changed + 1)); echo "-- CHANGED (exit code $code)" ;;
    esac
done
echo "$passed still so, $changed changed, $absent not runnable here"
[ "$changed" -eq 0 ]
