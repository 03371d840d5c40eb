#!/bin/sh
# In netlab a pool that is written as a prefix alone has other lengths than the same prefix in a map.
#
# Guess:   `p2p: 10.9.0.0/16` is short for `p2p: {ipv4: 10.9.0.0/16}`: links get a /30, as always.
# Package: networklab 26.10 (PyPI).
# Happens: the text takes the place of all that the pool has by default, its length among it: links between two routers
#          get a /24.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

python3 -m venv "$tmp/venv" >"$tmp/pip" 2>&1 || skip "no python3 with venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    networklab==26.10 certifi==2026.10.19.post1 charset-normalizer==3.5.3 filelock==4.3.1 idna==3.20 \
    importlib_resources==7.1.0 Jinja2==3.1.6 markdown-it-py==4.3.0 MarkupSafe==3.0.4 mdurl==0.1.2 netaddr==1.3.0 \
    packaging==26.4 Pygments==2.21.0 python-box==7.4.1 PyYAML==6.0.4 requests==2.34.2 rich==15.0.0 \
    typing_extensions==4.16.0 urllib3==2.8.0 \
    >"$tmp/pip" 2>&1 || skip "$(tail -n 1 "$tmp/pip")"
PATH=$tmp/venv/bin:$PATH
export HOME="$tmp"

cd "$tmp"
show() {
    printf 'provider: clab\ndefaults.device: frr\nnodes: [r1, r2]\nlinks: [r1-r2]\naddressing: {p2p: %s}\n' "$1" >topology.yml
    netlab create -q -o yaml=out.yml topology.yml >log 2>&1 || { cat log; exit 1; }
    python3 - "$1" <<'PYTHON'
import sys
import yaml

link = yaml.safe_load(open("out.yml"))["links"][0]
print("p2p: %s gives %s" % (sys.argv[1], ", ".join("%s %s" % (end["node"], end["ipv4"]) for end in link["interfaces"])))
PYTHON
}
seen=$(show '{ipv4: 10.9.0.0/16}'; show 10.9.0.0/16)
expected='p2p: {ipv4: 10.9.0.0/16} gives r1 10.9.0.1/30, r2 10.9.0.2/30
p2p: 10.9.0.0/16 gives r1 10.9.0.1/24, r2 10.9.0.2/24'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
