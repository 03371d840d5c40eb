#!/bin/sh
# QEMU starts without the server of `-netdev stream`, and does not connect when it comes.
#
# Guess:   QEMU ends with an error when nobody listens, or it tries again.
# Package: qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3 (Debian 12).
# Happens: it runs and says nothing, and has tried once: a machine that is started before its switch has no network.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    'qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3' 'qemu-system-common=1:7.2+dfsg-7+deb12u18+b3' \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
cat >order.py <<'PYTHON'
import select
import socket
import subprocess

def attempt(title, early):
    server = socket.socket(socket.AF_UNIX)
    server.bind(title)
    if early:
        server.listen()
    control, inherited = socket.socketpair()
    qemu = subprocess.Popen(
        ["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display", "none", "-netdev",
         "stream,id=n,server=off,addr.type=unix,addr.path=" + title, "-chardev",
         "socket,id=qmp,fd=%d" % inherited.fileno(), "-mon", "chardev=qmp,mode=control"],
        pass_fds=[inherited.fileno()], stderr=subprocess.PIPE)
    inherited.close()
    # The monitor greets when everything is set up; without a greeting QEMU has ended.
    if control.recv(1):
        if not early:
            server.listen()
        came = select.select([server], [], [], 60 if early else 3)[0]
        runs = "runs" if qemu.poll() is None else "ended"
        print("%s: QEMU %s, %s" % (title, runs, "connected" if came else "not connected"))
    else:
        print("%s: QEMU ends with code %d" % (title, qemu.wait()))
    qemu.kill()
    qemu.communicate()

attempt("server first", True)
attempt("QEMU first", False)
PYTHON
seen=$(python3 order.py 2>err) || { cat err; exit 1; }
expected='server first: QEMU runs, connected
QEMU first: QEMU runs, not connected'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
