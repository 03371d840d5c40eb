"""What a script asked for: records with the script's lines, and the file that they go to."""

import contextlib
import json
import os
import sys

RUNS = os.environ.get("NETLOOM_MININET") == "run"
SCRIPT = os.environ.get("NETLOOM_MININET_SCRIPT", "")

#: Commands of hosts once the network was started, in their order.
commands = []

#: What the script did that no lab file has.
calls = []

#: All links that there are, in the order in which they were made.
links = []

#: The line of the script that a topology's node or link is of, while the network makes it.
_made_at = None


class Done(SystemExit):
    """Ends a script whose network is known."""


def line():
    """The line of the script that is at work."""
    if _made_at:
        return _made_at
    frame = sys._getframe(1)
    found = 0
    while frame is not None:
        if os.path.abspath(frame.f_code.co_filename) == SCRIPT:
            return frame.f_lineno
        frame = frame.f_back
    return found


@contextlib.contextmanager
def at(place):
    """What is made meanwhile is of this line of the script."""
    global _made_at
    before, _made_at = _made_at, place
    try:
        yield
    finally:
        _made_at = before


def plain(value):
    """A value as JSON has it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, type):
        return value.__name__
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else type(value).__name__


def params(given):
    """Parameters that say something, as JSON has them."""
    return {str(key): plain(value) for key, value in given.items() if value is not None}


def say(what):
    """Tells the caller of a script that runs something that is not as in Mininet."""
    sys.stderr.write("netloom: %s\n" % what)


def refuse(what):
    """Ends a script that runs, at something that it cannot have."""
    sys.stderr.write("%s:%d: %s\n" % (os.environ.get("NETLOOM_MININET_SHOWN", "the script"), line(), what))
    raise SystemExit(1)


def call(what):
    """Notes something that no lab file has."""
    calls.append({"line": line(), "what": what})


def ended_with(error):
    """Notes that a script has failed, at its line."""
    at, place = 0, error.__traceback__
    while place is not None:
        if os.path.abspath(place.tb_frame.f_code.co_filename) == SCRIPT:
            at = place.tb_lineno
        place = place.tb_next
    calls.append({"line": at, "what": "%s: %s, where commands say nothing" % (type(error).__name__, error)})


def document(net):
    """The record of a network."""
    return {
        "netloom-mininet-record": 1,
        "script": os.path.basename(SCRIPT),
        "hosts": [node._as_record() for node in net.hosts],
        "switches": [node._as_record() for node in net.switches],
        "controllers": [node._as_record() for node in net.controllers],
        "links": [link._as_record() for link in links],
        "commands": commands,
        "calls": calls,
        "options": net._options,
    }


def write(net, path=None):
    """Writes the record of a network."""
    with open(path or os.environ["NETLOOM_MININET_RECORD"], "w", encoding="utf-8") as file:
        json.dump(document(net), file, indent=1)
