"""`ovs-ofctl` and `ovs-vsctl` for switches of a running lab, by netloom's verbs: _ofctl.py NETLOOM LAB REFUSED PROGRAM ARGUMENT...

What they refuse goes to the file REFUSED, too.
"""

import subprocess
import sys

#: What stands after `netloom flow`: words before the switch, and after it.
VERBS = {
    "dump-flows": (["dump"], []), "add-flow": (["add"], []), "mod-flows": (["mod"], []), "del-flows": (["del"], []),
    "dump-groups": (["groups"], []), "add-group": (["groups"], ["add"]), "mod-group": (["groups"], ["mod"]),
    "del-groups": (["groups"], ["del"]), "dump-meters": (["meters"], []), "add-meter": (["meters"], ["add"]),
    "del-meter": (["meters"], ["del"]), "dump-ports": (["ports"], []), "dump-ports-desc": (["ports"], []),
    "show": (["ports"], []),
}


def command(words, switch=None):
    """The words of netloom for those of ovs-ofctl, or a text that says what it lacks."""
    words, strict = [str(word) for word in words], False
    plain = []
    while words:
        word = words.pop(0)
        if word in ("-O", "-t", "-m") and words:
            words.pop(0)
        elif word == "--strict":
            strict = True
        elif not word.startswith("-") or word == "-":
            plain.append(word)
    if not plain or plain[0] not in VERBS:
        return "%s: netloom knows %s\n" % (plain[0] if plain else "no command", ", ".join(VERBS))
    verb = plain.pop(0)
    if switch is None:
        if not plain:
            return "%s: which switch?\n" % verb
        switch = plain.pop(0)
    before, after = VERBS[verb]
    if verb.startswith("del-") and not plain:
        plain = ["--all"]
    return ["flow", *before, switch, *after, *plain, *(["--strict"] if strict else [])]


def run(netloom, lab, words, switch=None):
    """What a command prints, errors too, and its exit code."""
    made = command(words, switch)
    if isinstance(made, str):
        return made, 1
    done = subprocess.run([netloom, "-l", lab, *made], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, check=False)
    return done.stdout, done.returncode


def main():
    netloom, lab, refused, program = sys.argv[1:5]
    if program != "ovs-ofctl":
        output, code = "%s: the switches are netloom's, which `netloom switch` and `netloom flow` show and change\n" % program, 1
    else:
        output, code = run(netloom, lab, sys.argv[5:])
    (sys.stdout if code == 0 else sys.stderr).write(output)
    if code != 0:
        with open(refused, "a", encoding="utf-8") as file:
            file.write(output)
    sys.exit(code)


if __name__ == "__main__":
    main()
