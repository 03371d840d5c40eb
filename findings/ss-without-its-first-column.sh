#!/bin/sh
# `ss state established` leaves out the column of the state, so all others move.
#
# Guess:   a filter chooses lines: the columns of those that it shows are the same.
# Package: iproute2 6.1.0-3 (Debian 12), on Linux 6.18.
# Happens: where one state is asked for, its column is left out, and what read the addresses in columns 4 and 5 has
#          them in 3 and 4. With `state connected`, or a filter of ports or addresses, it is there.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    iproute2=6.1.0-3 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/connect.py" <<'PYTHON'
import socket
import subprocess

with socket.create_server(("127.0.0.1", 8080)) as server:
    with socket.create_connection(("127.0.0.1", 8080)):
        accepted = server.accept()
        for options in ("", "sport = :8080", "state connected", "state established"):
            text = subprocess.run(["ss", "-Htn"] + options.split(), capture_output=True, text=True, check=True).stdout
            for fields in (line.split() for line in text.splitlines()):
                column = [field.startswith("127.0.0.1:") for field in fields].index(True)
                if fields[column] == "127.0.0.1:8080":
                    break
            print("%s: %s first, the server's address in column %d" % (options or "no filter", fields[0], column + 1))
PYTHON
# shellcheck disable=SC2016
seen=$(alone '
    ip link set lo up
    python3 "$0/connect.py"' "$tmp")
expected="no filter: ESTAB first, the server's address in column 4
sport = :8080: ESTAB first, the server's address in column 4
state connected: ESTAB first, the server's address in column 4
state established: 0 first, the server's address in column 3"

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
