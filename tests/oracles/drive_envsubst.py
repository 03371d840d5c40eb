"""containerlab's variables: topologies with `$NAME` and `${NAME...}` in the values of an `env`."""

import json
import os
import re
import subprocess

import yaml

VALUES = {"A": "1", "LONG": "a b  c", "EMPTY": "", "URL": "http://x:1/y?z=-+", "DOLLAR": "p$A", "A_b1": "under"}
UNSET = ["B", "Ab", "none", "_x"]
TEXTS = ["", "x", "a b", "a-b", "a=b", "a:b", "a+b", ":-", "$A", "${A}", "$B", "é", "1", "_", " ", "a$", "$$", "$URL/$A"]
OPERATORS = ["-", "=", ":-", ":=", "+", ":+", ":x", ":1", "?", ":?", "#", "/"]
PLAIN = ["x", " ", "5$", "$ a", "$$", "$$A", "$1", "${1}", "$1A", "$-", "a.b/c:d", "}", "{", "é", "$é", "$_", "-", "${}"]

# Read by `netloom import`, too, which this driver starts.
os.environ.update(VALUES)
for unset in UNSET:
    os.environ.pop(unset, None)


def piece(draws):
    """A piece of a value."""
    name = draws.choice(list(VALUES) + UNSET)
    shape = draws.random()
    if shape < 0.25:
        return draws.choice(PLAIN)
    if shape < 0.5:
        return draws.choice(["$%s", "${%s}"]) % name
    return "${%s%s%s}" % (name, draws.choice(OPERATORS), draws.choice(TEXTS))


def make(draws, folder, _number):
    """A topology."""
    lines = ["topology:", "  nodes:", "    a:", "      kind: linux", "      env:"]
    for number in range(draws.randint(1, 6)):
        value = "|".join(piece(draws) for _ in range(draws.randint(1, 4)))
        # Two braces open a template, and `${` of two pieces a variable that does not end.
        value = re.sub(r"(?<=[{$])\|{", "-{", value).replace("|", "")
        lines.append("        V%d: '%s'" % (number, value))
    with open(os.path.join(folder, "v.clab.yml"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return "v.clab.yml"


def ask(cases, folder):
    """What the texts are with their values."""
    texts = []
    for case in cases:
        with open(os.path.join(case.folder, "v.clab.yml"), encoding="utf-8") as file:
            texts.append(file.read())
    done = subprocess.run([os.path.join(folder, "reader")], input=json.dumps(texts), stdout=subprocess.PIPE, text=True, check=True)
    answers = []
    for answer in json.loads(done.stdout):
        try:
            tree = yaml.safe_load(answer["text"])
            answers.append(answer["error"] or {"env": tree["topology"]["nodes"]["a"]["env"]})
        except yaml.YAMLError as error:
            answers.append(str(error))
    return answers


def ours(_found, tree, _report):
    """The values in our lab file."""
    return {"env": {key: str(value) for key, value in (tree["nodes"]["a"] or {})["env"].items()}}
