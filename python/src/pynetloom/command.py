"""Runs the program `netloom`, and turns its errors into exceptions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Optional, Union

from .errors import CommandError, NotInstalled, Unsupported, UsageError

Text = Union[str, "os.PathLike[str]"]

BINARY = "PYNETLOOM_BINARY"
"""Variable with the path of `netloom`, where it is not the one in PATH."""


class Netloom:
    """The program, at the given path, at `$PYNETLOOM_BINARY` or in PATH."""

    def __init__(self, path: Optional[Text] = None) -> None:
        asked = os.fspath(path) if path is not None else os.environ.get(BINARY) or "netloom"
        found = shutil.which(asked)
        if found is None:
            raise NotInstalled(f"{asked}: there is no such program; install netloom, or name it by {BINARY}")
        self.path = os.path.abspath(found)

    def command(self, args: Sequence[Text], lab: Optional[str] = None) -> list[str]:
        """The argument list of a call; with a lab, of one about that lab."""
        about = ["-l", lab] if lab is not None else []
        return [self.path, *about, *(os.fspath(arg) for arg in args)]

    def run(
        self,
        args: Sequence[Text],
        *,
        lab: Optional[str] = None,
        input: Optional[str] = None,
        good: Sequence[int] = (0,),
        uninterrupted: bool = False,
    ) -> str:
        """Runs `netloom` to its end and gives what it prints; an error is a `CommandError`.

        `uninterrupted`: a Ctrl-C is raised only when the program has ended by itself.
        """
        __tracebackhide__ = True
        command = self.command(args, lab)
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            encoding="utf-8",
            errors="replace",
            # The terminal's Ctrl-C is for the caller, who decides what becomes of the lab.
            start_new_session=True,
        )
        out, err = _to_its_end(process, input, uninterrupted)
        if process.returncode not in good:
            raise failure(command, process.returncode, err)
        return out

    def json(self, args: Sequence[Text], **how: Any) -> Any:
        """The same for a verb that prints JSON."""
        return json.loads(self.run(args, **how))

    def lacks(self) -> Optional[str]:
        """Why no lab can run on this machine, as `netloom doctor` tells; None where labs can."""
        told = subprocess.run(
            self.command(["doctor", "--json"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment(),
            check=False,
        )
        if told.returncode != Unsupported.STATUS:
            return None
        found: list[dict[str, Any]] = json.loads(told.stdout)
        first = next((one for one in found if not one["available"]), {})
        words = [str(first.get(key)) for key in ("feature", "detail", "needs") if first.get(key)]
        return ": ".join(words) or "netloom doctor says that labs cannot run"


def environment() -> dict[str, str]:
    """The caller's, without the lab that it names: each call here names its own."""
    return {key: value for key, value in os.environ.items() if key != "NETLOOM_LAB"}


def failure(command: Sequence[str], code: int, stderr: str) -> CommandError:
    """The exception for an exit status."""
    kinds = {UsageError.STATUS: UsageError, Unsupported.STATUS: Unsupported}
    return kinds.get(code, CommandError)(command, code, stderr)


def _to_its_end(process: subprocess.Popen[str], input: Optional[str], uninterrupted: bool) -> tuple[str, str]:
    interrupt: Optional[KeyboardInterrupt] = None
    while True:
        try:
            out, err = process.communicate(input)
        except KeyboardInterrupt as error:
            interrupt, input = error, None
            if not uninterrupted:
                # As Ctrl-C in its terminal: it takes back what it has begun.
                process.terminate()
                uninterrupted = True
            continue
        if interrupt is not None:
            raise interrupt
        return out, err
