"""What tests of the package share: a pytest in a pytest, and a lab of two nodes."""

from pathlib import Path

pytest_plugins = ["pytester"]

PAIR = """\
name: pair
nodes:
  a: {}
  b: {run: python3 -m http.server 80, ready: 80}
links: [a-b]
"""

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
