#!/bin/sh
# In netlab an address at one end of a link says nothing about the other end's network.
#
# Guess:   with `ipv4: 192.0.2.1/24` at one end of a link, the other end gets an address of 192.0.2.0/24, or the
#          topology is refused.
# Package: networklab 26.10 (PyPI).
# Happens: the link takes a network from its pool all the same, and the other end gets an address of that: two ends of
#          one link that do not share a network, without a warning. The network has to be said once more, by `prefix`.
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
cat >topology.yml <<'LAB'
provider: clab
defaults.device: frr
nodes: [r1, r2]
links:
- {r1: {ipv4: 192.0.2.1/24}, r2: {}}
- {r1: {ipv4: 192.0.2.129/25}, r2: {}, prefix: 192.0.2.128/25}
LAB
netlab create -q -o yaml=out.yml topology.yml >log 2>&1 || { cat log; exit 1; }
seen=$(python3 - <<'PYTHON'
import yaml

for link, asked in zip(yaml.safe_load(open("out.yml"))["links"], ("address alone", "address and prefix")):
    print("%s: %s" % (asked, ", ".join("%s %s" % (end["node"], end["ipv4"]) for end in link["interfaces"])))
PYTHON
)
expected='address alone: r1 192.0.2.1/24, r2 10.1.0.2/30
address and prefix: r1 192.0.2.129/25, r2 192.0.2.130/25'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
