"""What a lab file means, in the shape in which all drivers say it.

A meaning is a tree of items::

    {"nodes": {NAME: {"kind": ..., KEY: VALUE}},
     "interfaces": {NODE: {NAME: {"mac": ..., "addresses": [...], "order": N}}},
     "links": {"END -- END": {"mtu": ..., "a": IMPAIRMENT, "b": IMPAIRMENT}}}

An end is NODE:INTERFACE or a switch; ends of a link are sorted, ``a`` is what the first of them sends. Times are
microseconds, rates bits a second, shares percent. Drivers leave out what their format does not say.
"""

import re

TIMES = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "min": 6e7}
RATES = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}


def quantity(text, units):
    """A number with a unit."""
    found = re.match(r"([\d.]+)\s*([a-z%]*)", str(text))
    return float(found.group(1)) * units.get(found.group(2), 1.0)


def impairment(keys):
    """What a wire does, as numbers."""
    found = {}
    for key, value in keys.items():
        if key in ("delay", "jitter"):
            found[key] = round(quantity(value, TIMES), 3)
            words = str(value).split()[1:]
            if words:
                found[key + "-shape"] = words[0]
        elif key == "rate":
            found[key] = round(quantity(value, RATES))
        elif key in ("loss", "duplicate", "corrupt", "reorder"):
            found[key] = round(quantity(value, {}), 5) if not isinstance(value, dict) else value
        elif key in ("queue", "limit"):
            found[key] = int(value)
        elif key == "drop":
            found[key] = value
    return found


def link(ends, ways, **keys):
    """A link's name, and what it is; ``ways`` is what each of the ends sends."""
    order = sorted(range(2), key=lambda number: ends[number])
    name = " -- ".join(ends[number] for number in order)
    ways = {side: ways[number] for side, number in zip("ab", order) if ways[number]}
    return name, dict({key: value for key, value in keys.items() if value is not None}, **ways)


def put(links, name, value):
    """Adds a link; others between the same ends have numbers."""
    key, number = name, 1
    while key in links:
        number += 1
        key = "%s #%d" % (name, number)
    links[key] = value


def address(words):
    """The interface and address of a command that gives one."""
    if len(words) == 6 and words[:3] == ["ip", "address", "add"] and words[4] == "dev":
        return words[5], words[3]
    return None


def meaning(tree):
    """The meaning of a lab file."""
    nodes, interfaces, links = {}, {}, {}
    for name, node in (tree.get("nodes") or {}).items():
        nodes[name] = {"kind": "node"}
        node = node or {}
        nodes[name].update({key: value for key, value in node.items() if key != "setup"})
        commands = []
        for words in node.get("setup") or []:
            given = address(words) if isinstance(words, list) else None
            if given:
                own = interfaces.setdefault(name, {}).setdefault(given[0], {})
                own.setdefault("addresses", []).append(given[1])
            else:
                commands.append(words)
        if commands:
            nodes[name]["setup"] = commands
    for name, switch in (tree.get("switches") or {}).items():
        nodes[name] = dict(switch or {}, kind="switch")
    for entry in tree.get("links") or []:
        wire(entry, interfaces, links)
    for own in interfaces.values():
        for interface in own.values():
            interface["addresses"] = sorted(interface.get("addresses", []))
    return {"nodes": nodes, "interfaces": interfaces, "links": links}


def wire(entry, interfaces, links):
    """A link of a lab file."""
    ends = entry["ends"]
    both = impairment(entry)
    ways = [dict(both, **impairment(entry.get(side) or {})) for side in "ab"]
    put(links, *link(ends, ways, mtu=entry.get("mtu")))
    for end in ends:
        node, _, name = end.partition(":")
        if not name:
            continue
        own = interfaces.setdefault(node, {})
        interface = own.setdefault(name, {})
        interface["order"] = len([other for other in own.values() if "order" in other])
        for key in ("addresses", "mac"):
            given = entry.get(key)
            value = (given.get(node) or given.get(end)) if isinstance(given, dict) else None
            if value and key == "mac":
                interface["mac"] = value
            elif value:
                more = value if isinstance(value, list) else [value] * (value != "none")
                interface["addresses"] = interface.get("addresses", []) + more
