#!/usr/bin/env bash
# Ends scripts/bare.sh in the middle, in each of its phases and in each way, and looks for what is left. By hand, as root; takes
# a minute and apt's sources: bash tests/bare.sh
#
# Prints a line for each end, and last `N passed, N failed, 0 skipped`.
set -euo pipefail

cd "$(dirname "$0")/.."
NETLOOM_BARE_CACHE=$(mktemp -d /var/tmp/netloom-bare-test-XXXXXX)
export NETLOOM_BARE_CACHE
trap 'rm -rf --one-file-system "$NETLOOM_BARE_CACHE"' EXIT
passed=0 failed=0
# In the command line of each process of these runs.
mark=netloom-bare-test-$$

# until_true CONDITION [SECONDS]
until_true() {
    local end=$((SECONDS + ${2:-120}))
    until eval "$1"; do
        [ "$SECONDS" -lt "$end" ] || { echo "not in time: $1" >&2; return 1; }
        sleep 0.1
    done
}

# Processes, mounts and namespaces that are left of a run.
left() {
    # The brackets and the variable: grep does not find itself.
    env -u NETLOOM_BARE_CACHE \
        grep -ls -e "[n]${mark#n}" -e "[/]${NETLOOM_BARE_CACHE#/}" /proc/[0-9]*/cmdline /proc/[0-9]*/environ || :
    grep -F "$NETLOOM_BARE_CACHE" /proc/self/mountinfo || :
    local one
    for one in $(cat "$NETLOOM_BARE_CACHE/namespaces" 2>/dev/null); do
        find /proc/[0-9]*/ns -maxdepth 1 -lname "$one" 2>/dev/null || :
    done
}

# begin COMMAND: starts a run that is the first of a session, as a terminal's would be.
begin() {
    : >"$NETLOOM_BARE_CACHE/said"
    env --default-signal=INT setsid bash scripts/bare.sh bookworm "$1" >"$NETLOOM_BARE_CACHE/said" 2>&1 &
    run=$!
}

# judge NAME CODE
judge() {
    local code=0
    wait "$run" 2>/dev/null || code=$?
    if [ "$code" -eq "$2" ] && until_true '[ -z "$(left)" ]' 10; then
        echo "ok: $1"
        passed=$((passed + 1))
    else
        echo "failed: $1 (exit code $code); left: $(left)"
        cat "$NETLOOM_BARE_CACHE/said"
        failed=$((failed + 1))
    fi
}

# Ends in each way: to it alone, and Ctrl-C to all in its terminal.
end() {
    case $1 in
    KILL) kill -KILL "$run" && judge "$1, $2" 137 ;;
    TERM) kill -TERM "$run" && judge "$1, $2" 143 ;;
    INT) kill -INT -- "-$run" && judge "$1, $2" 130 ;;
    esac
}

for signal in KILL TERM INT; do
    begin true
    until_true 'grep -q "running apt-get update" "$NETLOOM_BARE_CACHE/said"'
    end "$signal" 'while the root is made'
done
for signal in KILL TERM INT; do
    # A service that leaves its session and its parent, in namespaces and with mounts of its own; then all wait.
    begin "setsid unshare --mount --net --pid --fork sh -c 'mount -t tmpfs $mark /mnt; sleep 1000 # $mark' &
        for kind in mnt uts ipc; do readlink /proc/self/ns/\$kind; done >names
        mv names begun-$signal; sleep 1000 # $mark"
    # A killed run has left its own; the next removes it.
    begun="$NETLOOM_BARE_CACHE/run-*/root$NETLOOM_BARE_CACHE/run-*/netloom/begun-$signal"
    until_true 'ls $begun >/dev/null 2>&1'
    # Unquoted on purpose: a pattern.
    # shellcheck disable=SC2086
    cat $begun >"$NETLOOM_BARE_CACHE/namespaces"
    [ "$(wc -l <"$NETLOOM_BARE_CACHE/namespaces")" -eq 3 ]
    end "$signal" 'in the bare root'
done
begin 'ls /old && exit 3; echo "1 passed, 0 failed, 2 skipped"'
judge 'the next run' 0
if [ "$(tail -n 1 "$NETLOOM_BARE_CACHE/said")" = '1 passed, 0 failed, 2 skipped' ] &&
    [ -z "$(find "$NETLOOM_BARE_CACHE" -name 'run-*')" ]; then
    passed=$((passed + 1))
else
    echo "failed: the next run leaves no folder and ends with its totals"
    ls -la "$NETLOOM_BARE_CACHE"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
