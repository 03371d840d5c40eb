#!/bin/sh
# In netlab `unnumbered: false` makes a link unnumbered.
#
# Guess:   it is the default: the link gets addresses like the one without it.
# Package: networklab 26.10 (PyPI).
# Happens: the link's ends have `ipv4: true`, no address, exactly as with `unnumbered: true`. That the key is there
#          counts, not its value.
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
- {r1: {}, r2: {}}
- {r1: {}, r2: {}, unnumbered: false}
- {r1: {}, r2: {}, unnumbered: true}
LAB
netlab create -q -o yaml=out.yml topology.yml >log 2>&1 || { cat log; exit 1; }
seen=$(python3 - <<'PYTHON'
import yaml

for link, asked in zip(yaml.safe_load(open("out.yml"))["links"], ("nothing", "unnumbered: false", "unnumbered: true")):
    print("%s: %s" % (asked, ", ".join("%s %s" % (end["node"], end["ipv4"]) for end in link["interfaces"])))
PYTHON
)
expected='nothing: r1 10.1.0.1/30, r2 10.1.0.2/30
unnumbered: false: r1 True, r2 True
unnumbered: true: r1 True, r2 True'

echo "$seen"
[ "$seen" = "$expected" ] || { printf 'expected:\n%s\n' "$expected"; exit 1; }
