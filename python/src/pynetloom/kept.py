"""What stays of a failed test: what its labs' programs said, their state, and a capture of all their links."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
from typing import Callable, Optional

from .capture import Capture
from .errors import Error
from .lab import Lab

OPTIONS = ("--engine", "tpacket", "--ring", "1MiB", "--memory", "64MiB", "--buffered")
"""Of captures of tests: each starts soon and takes little memory, since most are thrown away."""


class Recorder:
    """Captures all links of a lab, from now on or from the last failed test, into a file that only failures keep."""

    def __init__(self, lab: Lab, scratch: str, label: str, wanted: bool) -> None:
        self.lab = lab
        self.label = label
        self._scratch = scratch
        self._wanted = wanted
        self._capture: Optional[Capture] = None
        self._trouble: Optional[str] = None
        self._count = 0
        self.resume()

    def resume(self) -> None:
        """Captures, where it does not already. A machine that cannot is told in the report of a failed test."""
        if not self._wanted or self._capture is not None or self._trouble is not None:
            return
        self._count += 1
        path = os.path.join(self._scratch, f"{self.lab.name}.{self._count}.pcapng")
        try:
            self._capture = Capture(self.lab.netloom, self.lab.name, [], path, options=OPTIONS)
        except Error as error:
            self._trouble = str(error)

    def end(self) -> None:
        """Begins to end the capture, which nobody wants: closing its sockets takes the kernel a while."""
        if self._capture is not None:
            self._capture.kill()

    def discard(self) -> None:
        """Ends the capture, which nobody wants, and removes its file."""
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.discard()

    def keep(self, folder: str) -> list[str]:
        """Puts everything into a folder; gives a line for each file, or why it is not there."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lines: list[str] = []
        self._keep_capture(folder, lines)
        self._put(folder, "status.json", lines, lambda: json.dumps(self.lab.status(), indent=1))
        for node in self._nodes():
            self._put(folder, f"{_plain(node)}.log", lines, functools.partial(self._log, node))
        for number, process in enumerate(self.lab._processes, 1):
            name = f"{_plain(process.node)}.started-{number}.log"
            self._put(folder, name, lines, functools.partial(getattr, process, "output"))
        return lines

    def _nodes(self) -> list[str]:
        try:
            return [node["name"] for node in self.lab.api.nodes() if node["programs"]]
        except Error:
            # The state's line says why.
            return []

    def _log(self, node: str) -> str:
        return "".join(f"{line['text']}\n" for line in self.lab.logs(node))

    def _keep_capture(self, folder: str, lines: list[str]) -> None:
        capture, self._capture = self._capture, None
        target = os.path.join(folder, f"{self.label}.pcapng")
        if self._trouble is not None:
            lines.append(f"no {target}: {self._trouble}")
        if capture is None:
            return
        try:
            capture.stop()
        except Error as error:
            lines.append(f"not all of {target}: {error}")
        if os.path.exists(capture.path):
            shutil.move(capture.path, target)
            lines.append(target)

    def _put(self, folder: str, name: str, lines: list[str], text: Callable[[], str]) -> None:
        path = os.path.join(folder, f"{self.label}.{name}")
        try:
            content = text()
        except Error as error:
            lines.append(f"no {path}: {error}")
            return
        with open(path, "w", encoding="utf-8", opener=_private) as file:
            file.write(content)
        lines.append(path)


def folder_of(artifacts: str, test: str, first: bool) -> str:
    """The folder of a test, such as `test_it.py/test_name`.

    `first`: nothing of this run is in it, and what an earlier run of the test has left there goes.
    """
    file, _, rest = test.partition("::")
    # Values of parameters stand in brackets, and may be addresses of IPv6.
    head, bracket, values = rest.partition("[")
    names = head.split("::")
    names[-1] += bracket + values
    path = os.path.join(artifacts, *(_distinct(name) for name in [*file.split("/"), *names] if name))
    if first:
        shutil.rmtree(path, ignore_errors=True)
    return path


def _distinct(name: str) -> str:
    """A name as that of a folder; names that differ only in other characters stay different."""
    plain = _plain(name)
    return plain if plain == name else f"{plain[:150]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "x"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
