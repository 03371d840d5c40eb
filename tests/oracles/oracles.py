"""Compares imports with the programs whose labs they read: oracles.py FORMAT --netloom BIN --folder DIR [--n N] [--seed S]

Started by `cargo xtask oracles`. drive_FORMAT.py beside this file is a format's driver:

* ``make(random, folder, number)`` writes a valid lab into a folder, and returns what `netloom import` is given: a path
  in the folder, and options if it needs any.
* ``ask(cases, folder)`` has the original program say what each lab means: a list of meanings (see ``lab.py``), or a text where it
  refuses.
* ``ours(meaning, tree, report)``, where a format needs it, finishes the meaning that ``lab.py`` reads from our lab file.
* ``told(path, theirs, ours, item)``, where a format needs it, says whether a line of the report is about a difference.

A meaning is compared item by item. What differs is told if the report has a line that is not `carried` about it.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import subprocess
import sys

import yaml

import lab


class Case:
    """A lab: its folder, what import is given, and what came of it."""

    def __init__(self, number, folder, words):
        self.number, self.folder, self.words = number, folder, words
        self.report, self.error, self.meaning = [], None, None


def leaves(value, path=()):
    """The items of a meaning by their paths; a group without any is none itself."""
    if isinstance(value, dict) and (value or len(path) < 2):
        found = {}
        for key in value:
            found.update(leaves(value[key], path + (str(key),)))
        return found
    return {path: value}


def ours(case, netloom, driver):
    """Imports a lab."""
    out = os.path.join(case.folder, "ours.yaml")
    words = [netloom, "import", *case.words, "--json", "-o", out]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, cwd=case.folder, check=False)
    if done.returncode:
        case.error = done.stderr.strip() or "exit status %d" % done.returncode
        return
    case.report = json.loads(done.stdout)["items"]
    with open(out, encoding="utf-8") as file:
        tree = yaml.safe_load(file)
    case.meaning = lab.meaning(tree)
    if hasattr(driver, "ours"):
        case.meaning = driver.ours(case.meaning, tree, case.report) or case.meaning


def about(path, _theirs, _ours, item):
    """Whether a line of the report is about a path: both name the node or link, and the key."""
    words = set(item["item"].replace("[", ".").replace("]", "").split("."))
    return path[-1] in words and any(part in words for part in path[:-1])


def compare(theirs, case, driver):
    """The differences of a lab, each with whether the report tells of it."""
    left, right = leaves(theirs), leaves(case.meaning)
    told = getattr(driver, "told", about)
    notes = [item for item in case.report if item["verdict"] != "carried" and item.get("line")]
    found = []
    for path in sorted(set(left) | set(right)):
        pair = left.get(path), right.get(path)
        if pair[0] != pair[1]:
            found.append((path, *pair, any(told(path, *pair, note) for note in notes)))
    return found


def judge(theirs, case, driver):
    """What became of a lab, and what differs."""
    if isinstance(theirs, str):
        return ("refused by both" if case.error else "taken"), [theirs]
    if case.error:
        return "refused", [case.error]
    differences = compare(theirs, case, driver)
    texts = ["%s: there %s, here %s%s" % (".".join(path), json.dumps(a), json.dumps(b), " (told)" * known)
             for path, a, b, known in differences]
    if not differences:
        return "same", []
    return ("told" if all(known for *_, known in differences) else "different"), texts


def main():
    words = argparse.ArgumentParser()
    words.add_argument("format")
    words.add_argument("--netloom", required=True)
    words.add_argument("--folder", required=True)
    words.add_argument("--n", type=int, default=200)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--case", type=int, help="only this one, in full")
    given = words.parse_args()
    driver = importlib.import_module("drive_" + given.format)
    cases = []
    for number in [given.case] if given.case is not None else range(given.n):
        folder = os.path.join(given.folder, "cases", "%04d" % number)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        draws = random.Random("%s %d %d" % (given.format, given.seed, number))
        made = driver.make(draws, folder, number)
        cases.append(Case(number, folder, [made] if isinstance(made, str) else list(made)))
    counts = dict.fromkeys(("same", "told", "refused", "different", "taken", "refused by both"), 0)
    for case, theirs in zip(cases, driver.ask(cases, given.folder)):
        ours(case, given.netloom, driver)
        verdict, texts = judge(theirs, case, driver)
        counts[verdict] += 1
        if verdict not in ("same",) or given.case is not None:
            print("%s: %s" % (os.path.relpath(case.folder), verdict))
            print("".join("  %s\n" % text for text in texts), end="")
        if given.case is not None:
            print(json.dumps({"theirs": theirs, "ours": case.meaning}, indent=1, sort_keys=True))
    with open(os.path.join(given.folder, "counts.json"), "w", encoding="utf-8") as file:
        json.dump(dict(counts, inputs=len(cases)), file)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
