#!/bin/sh
# Says whether this machine and this user have what tests need. The list is needs.txt, beside this file.
#
#   needs.sh NAME...           0: all are there; 1: one is missing, and standard output says which; 2: no such line
#   needs.sh --missing FROM    those of FROM that are missing: NAME|APT|DNF|WHAT FOR
#   needs.sh --packages KIND   those of all lines whose package begins with KIND: NAME|APT|DNF|WHAT FOR
set -u

list=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/needs.txt

# What probes call. Of several words one is enough.

# A program in PATH that this user may run.
program() (
    IFS=:
    for name; do
        for folder in $PATH; do
            [ ! -f "$folder/$name" ] || [ ! -x "$folder/$name" ] || exit 0
        done
    done
    exit 1
)

file() {
    for path; do
        [ ! -e "$path" ] || return 0
    done
    return 1
}

# A library where the loader finds it; of one that it does not find it complains.
library() {
    for name; do
        [ -n "$(LD_PRELOAD=$name env true 2>&1)" ] || return 0
    done
    return 1
}

# A module of Python, and something in it.
module() { python3 -c "import $1 as m; ${2:+m.$2}"; }

# A socket of this family, type and protocol.
socket() { python3 -c "import socket; socket.socket($1, $2, $3)"; }

# A kernel of at least this version, by its first two numbers.
linux() {
    release=$(uname -r)
    [ "$(printf '%s\n' "$1" "${release%%[!0-9.]*}" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$1" ]
}

# A controller of limits in any hierarchy of groups.
controller() { grep -qw "$1" /sys/fs/cgroup/cgroup.controllers || grep -q "^cgroup .*[ ,]$1[ ,]" /proc/self/mounts; }

# A User-mode Linux that boots as far as its first program, or that dies of what netloom mends (parts/vm/preload/xstate.c).
uml() (
    program "$1" || exit 1
    folder=$(mktemp -d) || exit 1
    trap 'rm -rf "$folder"' EXIT
    set -- "$1" mem=64M con=null con0=null,fd:1 panic=-1 quiet rootfstype=hostfs rootflags=/ ro \
        initcall_blacklist=raid6_select_algo "uml_dir=$folder" umid=probe init=/bin/echo -- netloom-booted
    TMPDIR=/dev/shm timeout -k 1 30 "$@" </dev/null 2>/dev/null |
        grep -q -e '^netloom-booted' -e 'ptrace set fp regs failed'
)

# Whether this user may make groups below its own.
delegated() { [ -w "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)" ]; }

# Whether this user is given other users' numbers.
given_ids() {
    for given in /etc/subuid /etc/subgid; do
        grep -q -e "^$(id -un):" -e "^$(id -u):" "$given" || return 1
    done
}

# Lines without comments and the space around columns.
lines() {
    sed -e '/^#/d' -e '/^ *$/d' -e 's/ *| */|/1' -e 's/ *| */|/2' -e 's/ *| */|/3' -e 's/ *| */|/4' -e 's/ *| */|/5' "$list"
}

# Whether what a line is about is there: NAME PROBE.
there() (eval "${2:-program $1}") </dev/null >/dev/null 2>&1

# NAME: as in the usage above.
tell() {
    lines | {
        while IFS='|' read -r name from _ _ why probe; do
            [ "$name" = "$1" ] || continue
            ! there "$name" "$probe" || exit 0
            case $from in
            machine) echo "missing:$name: $why" ;;
            *) echo "missing:$name: $why (make $from installs it)" ;;
            esac
            exit 1
        done
        echo "tests/needs.txt has no line for $1"
        exit 2
    }
}

case ${1:-} in
--missing)
    lines | while IFS='|' read -r name from apt dnf why probe; do
        [ "$from" != "$2" ] || there "$name" "$probe" || echo "$name|$apt|$dnf|$why"
    done
    ;;
--packages)
    lines | while IFS='|' read -r name _ apt dnf why _; do
        case $apt in "$2"*) echo "$name|$apt|$dnf|$why" ;; esac
    done
    ;;
'' | -*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
*)
    for wanted; do
        tell "$wanted" || exit
    done
    ;;
esac
