#!/bin/sh
# Jitter without delay is nothing in Mininet, and nobody is told.
#
# Guess:   a TCLink with jitter='2ms' varies the delay by up to 2 ms around 0, or is an error.
# Package: mininet 2.3.0-1 (Debian 12).
# Happens: jitter is only a word after the delay: without one no netem is asked for, and the link is a plain one. The
#          other parameters of a TCLink work alone.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" mininet=2.3.0-1 >"$tmp/apt" 2>&1 ||
    skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
PYTHONPATH=$tmp/root/usr/lib/python3/dist-packages
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu*)
export PYTHONPATH LD_LIBRARY_PATH
[ -x /usr/bin/python3 ] || skip "no python3 of the distribution"

# Mininet's commands are what matters, and not every kernel has netem: a tc that only writes them down.
mkdir "$tmp/bin"
cat >"$tmp/bin/tc" <<TC
#!/bin/sh
case "\$*" in *" add "*) echo "\$*" >>"$tmp/commands" ;; esac
TC
chmod +x "$tmp/bin/tc"
PATH=$tmp/bin:$tmp/root/usr/bin:$PATH

user=--map-root-user
[ "$(id -u)" -ne 0 ] || user=
# shellcheck disable=SC2086
unshare $user --mount --net true 2>/dev/null || skip "no namespaces for this user"

cat >"$tmp/lab.py" <<'PYTHON'
import sys
from mininet.link import TCLink
from mininet.net import Mininet

net = Mininet(controller=None, link=TCLink)
h1, h2 = net.addHost("h1"), net.addHost("h2")
net.addLink(h1, h2, **dict(option.split("=") for option in sys.argv[1:]))
net.build()
net.stop()
PYTHON
lab() {
    : >"$tmp/commands"
    # shellcheck disable=SC2086
    unshare $user --mount --net /usr/bin/python3 "$tmp/lab.py" "$@" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
    echo "$*: $(sed -n 's/.*dev h1-eth0.* netem/netem/p' "$tmp/commands")"
}
seen=$(lab delay=5ms jitter=2ms; lab delay=5ms; lab jitter=2ms)
expected='delay=5ms jitter=2ms: netem delay 5ms 2ms
delay=5ms: netem delay 5ms
jitter=2ms: '

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
