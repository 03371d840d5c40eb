"""The generated files are what the API's document gives, and cover all of it."""

import json
import subprocess
import sys
import typing
from pathlib import Path

from pynetloom import api, schemas

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = json.loads((ROOT.parent / "docs" / "api" / "openapi.json").read_text(encoding="utf-8"))


def test_generated_files_are_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_operation_is_a_method() -> None:
    for verbs in DOCUMENT["paths"].values():
        for operation in verbs.values():
            assert callable(getattr(api.Calls, operation["operationId"]))


def test_every_type_can_be_resolved() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        made = getattr(schemas, name)
        if schema.get("properties"):
            hints = typing.get_type_hints(made, vars(schemas))
            assert set(hints) == set(schema["properties"]), name
            assert made.__required_keys__ == set(schema.get("required", [])), name
