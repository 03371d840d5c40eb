#!/bin/sh
# In the pcap file of QEMU's filter-dump the time in which the guest was stopped does not exist.
#
# Guess:   packets bear the time of day at which they passed.
# Package: qemu-system-x86 1:7.2+dfsg-7+deb12u18+b3 (Debian 12).
# Happens: the file counts from its start by the guest's clock, which stands between the commands `stop` and `cont`:
#          frames that are two seconds apart are next to each other, and all later ones are two seconds early.
#          Such a file cannot be laid beside captures of other nodes.
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

# No guest is needed: two network devices of QEMU on a hub of it, and the filter at one of them.
cd "$tmp"
cat >dump.py <<'PYTHON'
import json
import os
import socket
import struct
import subprocess
import time

def device(name, hub_port):
    here = "id=%s,local.type=unix,local.path=%s.in,remote.type=unix,remote.path=out" % (name, name)
    return ["-netdev", "dgram," + here, "-netdev", "hubport,id=%s,hubid=0,netdev=%s" % (hub_port, name)]

far = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
far.bind("out")
control, inherited = socket.socketpair()
qemu = subprocess.Popen(
    ["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display", "none"]
    + device("a", "hub-a") + device("b", "hub-b")
    + ["-object", "filter-dump,id=dump,netdev=hub-a,file=dump", "-chardev", "socket,id=qmp,fd=%d" % inherited.fileno(),
       "-mon", "chardev=qmp,mode=control"], pass_fds=[inherited.fileno()])
inherited.close()
lines = control.makefile("rw")

def command(name):
    lines.write(json.dumps({"execute": name}))
    lines.flush()
    while "return" not in json.loads(lines.readline()):
        pass

def frame():
    before = os.path.getsize("dump")
    far.sendto(bytes.fromhex("0200000000020200000000010800") + bytes(46), "a.in")
    while os.path.getsize("dump") == before:
        time.sleep(0.01)

try:
    lines.readline()
    command("qmp_capabilities")
    frame()
    time.sleep(2)
    frame()
    command("stop")
    time.sleep(2)
    command("cont")
    frame()
finally:
    qemu.kill()
    qemu.wait()

# A header of 24 bytes, then each frame of 60 bytes behind one of 16 that begins with its time.
data = open("dump", "rb").read()
times = [seconds + micro / 1e6 for seconds, micro in (struct.unpack_from("<II", data, 24 + 76 * i) for i in range(3))]
print("running: %d s apart" % (times[1] - times[0]))
print("stopped between: %d s apart" % (times[2] - times[1]))
PYTHON
seen=$(python3 dump.py 2>err) || { cat err; exit 1; }
expected='running: 2 s apart
stopped between: 0 s apart'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
