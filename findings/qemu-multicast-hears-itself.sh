#!/bin/sh
# A QEMU network of `socket,mcast` gives a frame back to the side that it came from.
#
# Guess:   a sender does not get its own frames, as on any Ethernet, where a frame that comes back means a loop.
# Package: qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3, iproute2 6.1.0-3 (Debian 12).
# Happens: the group's socket hears what it sends itself: a frame that comes to QEMU by `socket,udp` and leaves for the
#          group goes back by UDP at once. Between two UDP sockets it does not.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3 qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 iproute2=6.1.0-3 \
    >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PATH=$tmp/root/bin:$tmp/root/sbin:$tmp/root/usr/bin:$tmp/root/usr/sbin:$PATH
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*):$(echo "$tmp"/root/lib/*-linux-gnu*)
export LD_LIBRARY_PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
alone() { unshare $user --net --pid --fork --kill-child sh -eu -c "$@"; }
alone true 2>/dev/null || skip "no namespaces for this user"
command -v python3 >/dev/null || skip "no python3"

cd "$tmp"
cat >frames.py <<'PYTHON'
import select
import socket
import subprocess

FRAME = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(46)

def udp(port):
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind(("127.0.0.1", port))
    return opened

def attempt(title, way, far):
    near = udp(7001)
    control, inherited = socket.socketpair()
    options = ["socket,id=a,udp=127.0.0.1:7001,localaddr=127.0.0.1:7002", way]
    options += ["hubport,id=h%s,hubid=1,netdev=%s" % (name, name) for name in "ab"]
    qemu = subprocess.Popen(
        ["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display", "none"]
        + [word for option in options for word in ("-netdev", option)]
        + ["-chardev", "socket,id=qmp,fd=%d" % inherited.fileno(), "-mon", "chardev=qmp,mode=control"],
        pass_fds=[inherited.fileno()], stderr=subprocess.DEVNULL)
    inherited.close()
    # The monitor greets when everything is set up.
    control.recv(1)
    near.sendto(FRAME, ("127.0.0.1", 7002))
    there = far.recv(2000) == FRAME
    back = 0
    while select.select([near], [], [], 2)[0]:
        back += near.recv(2000) == FRAME
    print("%s: %s, %d back" % (title, "arrives" if there else "another frame arrives", back))
    qemu.kill()
    qemu.communicate()
    near.close()

attempt("udp", "socket,id=b,udp=127.0.0.1:7003,localaddr=127.0.0.1:7004", udp(7003))
group = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
group.bind(("239.9.9.9", 7005))
request = socket.inet_aton("239.9.9.9") + socket.inet_aton("127.0.0.1")
group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
attempt("mcast", "socket,id=b,mcast=239.9.9.9:7005,localaddr=127.0.0.1", group)
PYTHON
seen=$(alone '
    ip link set lo up
    ip route add 239.0.0.0/8 dev lo
    python3 frames.py 2>log') || { cat log; exit 1; }
expected='udp: arrives, 0 back
mcast: arrives, 1 back'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
