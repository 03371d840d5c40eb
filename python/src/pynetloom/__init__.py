"""Networks of netloom in Python: labs in tests and scripts, and every call of the REST API, typed.

    from pynetloom import Lab

    with Lab.up("two-sites.yaml") as lab:
        lab.link("r1-r2").impair(delay="20ms")
        print(lab.node("h1").run(["curl", "-fsS", "http://web/"], check=True).stdout)

The pytest plug-in gives the fixtures `lab` and `module_lab`.
"""

from .capture import Capture
from .client import Api
from .command import Netloom
from .errors import (
    ApiError,
    CommandError,
    Conflict,
    Error,
    NotFound,
    NotInstalled,
    ProgramFailed,
    TimedOut,
    Unauthorized,
    Unreachable,
    Unsupported,
    UsageError,
)
from .lab import Answers, Lab, Link, Node, Reachability, wait_until
from .process import Process

__version__ = "0.2.0"

__all__ = [
    "Answers",
    "Api",
    "ApiError",
    "Capture",
    "CommandError",
    "Conflict",
    "Error",
    "Lab",
    "Link",
    "Netloom",
    "Node",
    "NotFound",
    "NotInstalled",
    "Process",
    "ProgramFailed",
    "Reachability",
    "TimedOut",
    "Unauthorized",
    "Unreachable",
    "Unsupported",
    "UsageError",
    "wait_until",
]
