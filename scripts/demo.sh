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

printf '\nEvery link is captured into one file while h1 downloads:\n'
printf '\n$ netloom capture --all -w demo.pcapng\n'
step='netloom capture --all'
"$netloom" capture --all --quiet --json -w "$work/demo.pcapng" >"$work/account" &
capture=$!
tries=0
# The file is made when all links are being captured.
until [ -e "$work/demo.pcapng" ]; do
    kill -0 "$capture" && [ "$tries" -lt 200 ]
    tries=$((tries + 1))
    sleep 0.05
done
show exec h1 -- curl -fsS http://web/ >"$work/shown"
step='the account of the capture'
kill "$capture"
wait "$capture"
python3 - "$work/account" <<'PYTHON'
import json, sys
account = json.load(open(sys.argv[1]))
for one in account['interfaces'] + [dict(name='total', ledger=account['total'])]:
    ledger = one['ledger']
    print(f"{one['name']:<10} offered {ledger['offered']}, filtered {ledger['filtered']}, "
          f"written {ledger['written']}, lost {sum(ledger['lost'].values())}")
print('difference', account['difference'])
sys.exit(account['difference'] != 0 or account['total']['written'] == 0)
PYTHON
if command -v tshark >/dev/null 2>&1; then
    step='tshark reads the capture'
    printf '\nAnswers 200 of the web server, on each link on the way, as tshark counts them:\n'
    # The same connection is seen four times: each frame is read by itself, not as one sent again.
    tshark -r "$work/demo.pcapng" -o tcp.analyze_sequence_numbers:FALSE \
        -o tcp.desegment_tcp_streams:FALSE -Y 'http.response.code == 200' -T fields \
        -e frame.interface_name >"$work/answers" 2>"$work/tshark" || { cat "$work/tshark" >&2; false; }
    sort "$work/answers" | uniq -c
    # By h1, r1 on both sides, and r2: each of the four links has the one answer.
    sort "$work/answers" | uniq | tr '\n' ' ' >"$work/links"
    grep -qx 'h1:eth0 r1:eth0 r1:eth1 r2:eth1 ' "$work/links" && [ "$(wc -l <"$work/answers")" -eq 4 ]
fi
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
