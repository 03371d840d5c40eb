#!/bin/sh
# The demo: demo.sh NETLOOM-BINARY. A network of two sites comes up from a file, a program in one
# site downloads from a server in the other through two routers, the network goes, nothing stays.
# Works as root and as an ordinary user.
set -eu

netloom=$(realpath "$1")
# Some systems (Ubuntu 24.04 is one) refuse namespaces to ordinary users until told otherwise.
if [ "$(id -u)" -ne 0 ] && ! unshare --user --map-root-user --net true 2>/dev/null &&
    command -v sudo >/dev/null 2>&1; then
    echo "demo: this system refuses user namespaces to ordinary users (netloom doctor tells how to"
    echo "demo: allow them), so the demo runs as root, through sudo"
    exec sudo sh "$(realpath "$0")" "$netloom"
fi
cd "$(dirname -- "$0")/.."
lab=two-sites
file=examples/$lab.yaml
work=$(mktemp -d)
NETLOOM_RUNTIME_DIR=$work/run
export NETLOOM_RUNTIME_DIR
mkdir -m 700 "$NETLOOM_RUNTIME_DIR"
step='start'

finish() {
    code=$?
    trap - EXIT
    if [ "$code" -ne 0 ]; then
        echo "demo: failed at: $step (exit code $code)" >&2
        "$netloom" down --all >/dev/null || echo "demo: could not take the lab down" >&2
    fi
    rm -rf "$work"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Prints a command as one would type it, then runs it.
show() {
    step="netloom $*"
    printf '\n$ netloom %s\n' "$*"
    "$netloom" "$@"
}

# What a lab could leave behind on this machine, one line each.
things() {
    for name in /sys/class/net/*; do echo "link ${name##*/}"; done
    awk '{ print "mount", $2, $3 }' /proc/self/mounts
    # Of this lab's name only: others may run on this machine at the same time.
    find /sys/fs/cgroup -type d -path "*netloom*$lab*" 2>/dev/null | sed 's/^/cgroup /' || :
    find "$NETLOOM_RUNTIME_DIR" -mindepth 1 2>/dev/null | sed 's/^/file /' || :
    labs_processes | sed 's/^/process /'
}

# Processes with this demo's runtime directory in their environment, and their descendants.
labs_processes() {
    for dir in /proc/[0-9]*; do
        pid=${dir#/proc/}
        [ "$pid" != "$$" ] || continue
        case $(cat "$dir/comm" 2>/dev/null || :) in
        netloom | netloom-*)
            # The dead that wait to be reaped have no environment to show.
            grep -qsF "$NETLOOM_RUNTIME_DIR" "$dir/environ" && echo "$pid" || :
            ;;
        esac
    done
}

namespaces() {
    for pid in $(labs_processes); do readlink "/proc/$pid/ns/net" 2>/dev/null || :; done | sort -u
}

all_namespaces() {
    for dir in /proc/[0-9]*; do readlink "$dir/ns/net" 2>/dev/null || :; done | sort -u
}

things | sort >"$work/before"
readlink /proc/self/ns/net >"$work/own"

show up "$file"
namespaces | grep -vxFf "$work/own" >"$work/namespaces" || :
show status
show ping --all

step='the way of a packet'
printf '\nThe way from h1 to web: a time to live of 62 means two routers took one each.\n'
show exec h1 -- ping -c 1 web
if command -v iperf3 >/dev/null 2>&1; then
    step='iperf3'
    printf '\nThroughput from h1 to web:\n'
    "$netloom" exec web -- iperf3 --server --one-off --forceflush >"$work/server" 2>&1 &
    server=$!
    tries=0
    until grep -q listening "$work/server"; do
        kill -0 "$server" && [ "$tries" -lt 100 ]
        tries=$((tries + 1))
        sleep 0.05
    done
    show exec h1 -- iperf3 --client web --time 2
    wait "$server"
fi

if [ "$(id -u)" -eq 0 ]; then
    step='a wire'
    printf '\nA wire with 20 ms and every fourth packet lost goes into the running link between the routers:\n'
    show link set r1:eth1 --delay 20ms --loss 'pattern ...x'
    # Lost packets are what was asked for.
    show exec h1 -- ping -q -i 0.1 -c 8 web || [ "$?" -eq 1 ]
    show link show r1:eth1
    show link set r1:eth1 --clear
fi
step='a node more'
printf '\nA node is added to the running lab, given a limit where limits can be had, and removed:\n'
show node create extra
[ "$(id -u)" -ne 0 ] || show node set extra processes=20
show node list
show node delete extra

printf '\nThe map, for Graphviz (first lines; --svg makes a picture):\n'
step='netloom graph --dot'
printf '$ netloom graph --dot\n'
"$netloom" graph --dot >"$work/map"
head -n 8 "$work/map"

show exec h1 -- curl -fsS http://web/ >"$work/shown"
tail -n 1 "$work/shown" >"$work/page"

show down

step='check that nothing is left'
tries=0
while :; do
    things | sort >"$work/after"
    all_namespaces >"$work/all"
    if cmp -s "$work/before" "$work/after" && ! grep -qxFf "$work/namespaces" "$work/all"; then
        break
    fi
    tries=$((tries + 1))
    if [ "$tries" -ge 100 ]; then
        diff "$work/before" "$work/after" >&2 || :
        grep -xFf "$work/namespaces" "$work/all" >&2 || :
        false
    fi
    sleep 0.05
done

step='the download'
grep -qx hello "$work/page"
count=$(wc -l <"$work/namespaces")
printf '\nNothing is left: links, mounts, cgroups, processes and files are as before'
# An ordinary user may not look at the namespaces of another user namespace.
[ "$count" -eq 0 ] || printf ', and the\n%s network namespaces are gone' "$count"
printf '.\n'
printf '\nThe download from h1 through r1 and r2:\n'
cat "$work/shown"
