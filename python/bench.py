"""Measures what the fixture `lab` costs a test: a lab of two nodes, up and down again.

    PYNETLOOM_BINARY=target/release/netloom python3 python/bench.py [ROUNDS]

Times whole runs of pytest with 40 tests that do nothing: without a lab, with one and no capture, and with one and a
capture of its link, in turns. The difference of two runs of the same round, divided by 40, is what a lab costs.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = 40
FILE = f"""
import pytest

@pytest.mark.parametrize("x", range({TESTS}))
def test_plain(x):
    pass

@pytest.mark.parametrize("x", range({TESTS}))
def test_lab(lab, x):
    lab(text="{{nodes: {{a: {{}}, b: {{}}}}, links: [a-b]}}")
"""
COMMAND = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pynetloom.pytest_plugin"]
WAYS = {
    "without a lab": ["-k", "plain"],
    "no capture": ["-k", "lab", "--netloom-require", "--netloom-capture", "never"],
    "capture": ["-k", "lab", "--netloom-require"],
}


def seconds(folder: str, words: list[str]) -> float:
    """One run of pytest."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent / "src")}
    begun = time.perf_counter()
    subprocess.run([*COMMAND, *words, "test_it.py"], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main(rounds: int) -> None:
    costs: dict[str, list[float]] = {"no capture": [], "capture": []}
    with tempfile.TemporaryDirectory(prefix="pynetloom-bench-") as folder:
        Path(folder, "test_it.py").write_text(FILE, encoding="utf-8")
        for _ in range(rounds):
            took = {way: seconds(folder, words) for way, words in WAYS.items()}
            for way, found in costs.items():
                found.append((took[way] - took["without a lab"]) * 1000 / TESTS)
    print(f"a lab of two nodes, up and down, in ms: median of {rounds} rounds (least to most)")
    for way, found in costs.items():
        print(f"{way:12} {statistics.median(found):6.1f} ({min(found):.1f} to {max(found):.1f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
