"""Writes the part of pynetloom that follows from the API's document.

    generate.py            rewrites schemas.py, api.py and the version in src/pynetloom
    generate.py --check    compares them instead, and fails where they differ

Of docs/api/openapi.json each schema becomes a TypedDict, a Literal, a Union or an alias in schemas.py, and each
operation a method of `Api` in api.py. What a schema says that neither can express (bounds, patterns) the server checks.
"""

import json
import keyword
import re
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "api" / "openapi.json"
PACKAGE = HERE / "src" / "pynetloom"
WIDTH = 100

SCALARS = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}

SCHEMAS_HEAD = '''\
"""Types of what the API takes and answers; `generate.py` writes this file from the API's document.

Values are plain dictionaries, lists and texts as `json` reads them. Keys that are not required are left out by the
server where they have their usual value: read them with `.get()`.
"""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict, Union
'''

API_HEAD = '''\
"""One method for each call of the API; `generate.py` writes this file from the API's document."""

from __future__ import annotations

from typing import Any, Literal, Optional
from urllib.parse import quote

from . import schemas as s
from .transport import Transport


def _segment(name: object) -> str:
    return quote(str(name), safe="-._~")


class Calls:
    """All calls. Each raises `ApiError` where the server refuses, `Unreachable` where none answers."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
'''


class Types:
    """Schemas as types of Python."""

    def __init__(self, schemas, prefix=""):
        self.schemas = schemas
        self.prefix = prefix
        self.made = []

    def of(self, schema, within):
        """The type of a schema; objects in it become classes named after `within`."""
        if "$ref" in schema:
            return self.prefix + schema["$ref"].rsplit("/", 1)[1]
        if "allOf" in schema and len(schema["allOf"]) == 1:
            return self.of(schema["allOf"][0], within)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self.union(schema[word], within)
        if "enum" in schema:
            return "Literal[" + ", ".join(json.dumps(value) for value in schema["enum"]) + "]"
        kind = schema.get("type")
        if isinstance(kind, list):
            return self.union([{**schema, "type": one} for one in kind], within)
        if kind == "array":
            return f"list[{self.of(schema['items'], within)}]" if "items" in schema else "list[Any]"
        if kind == "object":
            return self.object(schema, within)
        return SCALARS.get(kind, "Any")

    def union(self, variants, within):
        found = []
        for variant in variants:
            key = next(iter(variant.get("properties", {})), None)
            one = self.of(variant, within + camel(key) + "Form" if key else within)
            if one not in found:
                found.append(one)
        some = [one for one in found if one != "None"]
        inner = some[0] if len(some) == 1 else f"Union[{', '.join(some)}]"
        return f"Optional[{inner}]" if len(some) < len(found) else inner

    def object(self, schema, within):
        if schema.get("properties"):
            self.made.append(self.typed_dict(within, schema))
            return self.prefix + within
        values = schema.get("additionalProperties")
        return f"dict[str, {self.of(values, within) if isinstance(values, dict) else 'Any'}]"

    def fields(self, schema):
        """Properties and the names of required ones, with those of all parts of an `allOf`."""
        if "$ref" in schema:
            return self.fields(self.schemas[schema["$ref"].rsplit("/", 1)[1]])
        properties, required = dict(schema.get("properties", {})), set(schema.get("required", []))
        for part in schema.get("allOf", []):
            more, needed = self.fields(part)
            properties.update(more)
            required |= needed
        for variant in schema.get("oneOf", []):
            properties.update(self.fields(variant)[0])
        return properties, required

    def typed_dict(self, name, schema):
        properties, required = self.fields(schema)
        needed = {key: value for key, value in properties.items() if key in required}
        others = {key: value for key, value in properties.items() if key not in required}
        text, bases = "", []
        for part, suffix, total in ((needed, "Words", ""), (others, "OtherWords", ", total=False")):
            words = {key: value for key, value in part.items() if keyword.iskeyword(key)}
            if words:
                text += self.functional(f"_{name}{suffix}", words, total)
                bases.append(f"_{name}{suffix}")
        plain = [{key: value for key, value in part.items() if not keyword.iskeyword(key)} for part in (needed, others)]
        if plain[0] and plain[1]:
            text += self.body(f"_{name}Required", ["TypedDict", *bases][:1], None, name, plain[0])
            bases.insert(0, f"_{name}Required")
        fields, partial = (plain[1], True) if plain[1] else (plain[0], not needed)
        heads = (bases or ["TypedDict"]) + (["total=False"] if partial else [])
        return text + self.body(name, heads, schema.get("description"), name, fields)

    def functional(self, name, words, total):
        inner = ", ".join(f'"{key}": "{self.of(value, name)}"' for key, value in words.items())
        return f'{name} = TypedDict("{name}", {{{inner}}}{total})\n\n\n'

    def body(self, name, heads, description, within, fields):
        text = f"class {name}({', '.join(heads)}):\n"
        if description:
            text += docstring(description, 4) + "\n"
        for key, value in fields.items():
            text += f"    {key}: {self.of(value, within + camel(key))}\n"
            if described(value):
                text += docstring(described(value), 4)
        if not fields and not description:
            text += "    pass\n"
        return text + "\n\n"

    def definition(self, name, schema):
        """The text that defines a schema of the document, after what it needs."""
        self.made = []
        flat = "allOf" in schema and len(schema["allOf"]) > 1
        if flat or schema.get("properties"):
            text = self.typed_dict(name, schema)
        else:
            text = broken(f"{name} = {self.aliased(schema, name)}")
            if schema.get("description"):
                text += docstring(schema["description"], 0)
            text += "\n\n"
        return "".join(self.made) + text

    def aliased(self, schema, name):
        """As `of`, with names in quotes: an alias is evaluated where it stands."""
        found = self.of(schema, name)
        known = {"Literal", "Union", "Optional", "Any"}

        def put(match):
            word = match.group(0)
            return word if word.startswith("Literal[") or word in known else f'"{word}"'

        return re.sub(r"Literal\[[^\]]*\]|[A-Z]\w+", put, found)


def broken(line):
    """An alias, a member a line where it is too long for one."""
    if len(line) <= WIDTH:
        return line + "\n"
    head, rest = line.split("[", 1)
    return head + "[\n" + "".join(f"    {one},\n" for one in rest[:-1].split(", ")) + "]\n"


def camel(key):
    return "".join(part.title() for part in key.split("_"))


def described(schema):
    """What a field's schema says of it; of one that may be null its other form does."""
    inner = next((one for one in schema.get("oneOf", []) if one.get("type") != "null"), {})
    return schema.get("description") or inner.get("description")


def wrapped(text, indent, width=WIDTH):
    lines = []
    for paragraph in text.strip().split("\n\n"):
        one = " ".join(paragraph.split())
        lines += [*textwrap.wrap(one, width - indent, break_long_words=False, break_on_hyphens=False), ""]
    return lines[:-1]


def docstring(text, indent):
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    lines = wrapped(text, indent, WIDTH - 6)
    pad = " " * indent
    if len(lines) == 1:
        return f'{pad}"""{lines[0]}"""\n'
    inner = "\n".join((pad + line).rstrip() for line in lines[1:])
    return f'{pad}"""{lines[0]}\n{inner}\n{pad}"""\n'


def content(message, kind="application/json"):
    return (message or {}).get("content", {}).get(kind, {}).get("schema")


def parameter(types, one):
    schema = {key: value for key, value in one["schema"].items() if key != "default"}
    return types.of(schema, "Parameter")


def method(types, path, verb, operation):
    """The method of an operation."""
    given = operation.get("parameters", [])
    inside = [one for one in given if one["in"] == "path"]
    queries = [one for one in given if one["in"] == "query"]
    body = content(operation.get("requestBody"))
    arguments = ["self"] + [f"{safe(one['name'])}: {parameter(types, one)}" for one in inside]
    if body:
        arguments.append(f"body: {types.of(body, 'Body')}")
    needed = [one for one in queries if one.get("required")]
    others = [one for one in queries if not one.get("required")]
    if queries:
        arguments.append("*")
    arguments += [f"{safe(one['name'])}: {parameter(types, one)}" for one in needed]
    arguments += [f"{safe(one['name'])}: Optional[{parameter(types, one)}] = None" for one in others]
    good = next(value for code, value in operation["responses"].items() if code.startswith("2"))
    answer = types.of(content(good) or content(good, "text/plain"), "Answer")
    answer = "dict[str, Any]" if answer == "dict[str, Any]" or answer == "Any" else answer
    name = safe(operation["operationId"])
    head = f"    def {name}({', '.join(arguments)}) -> {answer}:\n"
    if len(head) > WIDTH:
        head = f"    def {name}(\n" + "".join(f"        {one},\n" for one in arguments) + f"    ) -> {answer}:\n"
    text = head + docstring(documentation(operation, [*inside, *queries]), 8)
    place = re.sub(r"\{(\w+)\}", lambda found: f"{{_segment({safe(found.group(1))})}}", path)
    place = f'f"{place}"' if inside else f'"{place}"'
    words = [f'"{verb.upper()}"', place]
    if queries:
        pairs = ", ".join(f'"{one["name"]}": {safe(one["name"])}' for one in queries)
        words.append(f"query={{{pairs}}}")
    if body:
        words.append("body=body")
    line = f"        found: {answer} = self.transport.call({', '.join(words)})\n"
    if len(line) > WIDTH:
        line = f"        found: {answer} = self.transport.call(\n" + "".join(f"            {one},\n" for one in words)
        line += "        )\n"
    return text + line + "        return found\n"


def documentation(operation, parameters):
    text = operation["summary"] + "."
    if operation.get("description"):
        text += "\n\n" + operation["description"]
    for one in parameters:
        if one.get("description"):
            text += f"\n\n`{safe(one['name'])}`: {one['description'].rstrip('.')}."
    return text


def safe(name):
    return name + "_" if keyword.iskeyword(name) else name


def generated():
    """The files and their texts."""
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    types = Types(schemas)
    text = SCHEMAS_HEAD + "\n\n" + "".join(types.definition(name, schema) for name, schema in sorted(schemas.items()))
    calls = Types(schemas, "s.")
    api = API_HEAD
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            api += "\n" + method(calls, path, verb, operation)
    return {
        PACKAGE / "schemas.py": text.rstrip() + "\n",
        PACKAGE / "api.py": api,
        PACKAGE / "__init__.py": versioned((PACKAGE / "__init__.py").read_text(encoding="utf-8")),
    }


def versioned(text):
    """The package's text with the version of the workspace."""
    workspace = (HERE.parent / "Cargo.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.*)"', workspace, re.MULTILINE).group(1)
    return re.sub(r'^__version__ = ".*"', f'__version__ = "{version}"', text, count=1, flags=re.MULTILINE)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit("generate.py: takes --check or nothing")
    for path, text in generated().items():
        name = path.relative_to(HERE.parent)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            print(f"{name}: as it should be")
        elif arguments:
            sys.exit(f"{name} is not what the API's document and the version give: run python3 python/generate.py")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{name}: written")


if __name__ == "__main__":
    main(sys.argv[1:])
