"""Programs that run in a node while a test goes on."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Optional

from .command import environment
from .errors import TimedOut

LAST = 5.0
"""Seconds that a program has between being asked to end and being killed."""


class Process:
    """A program in a node. It ends with the lab, or with the `with` block that it was started in.

    Its output, of both streams in order, is collected as it comes.
    """

    def __init__(self, node: str, args: Sequence[str], command: Sequence[str]) -> None:
        self.node = node
        self.command = list(args)
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._ended = False
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, name=f"output of {node}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with self._more:
                self._lines.append(line)
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()

    @property
    def output(self) -> str:
        """What it has written so far."""
        with self._more:
            return "".join(self._lines)

    @property
    def returncode(self) -> Optional[int]:
        """How it ended, as a shell shows it; None while it runs."""
        return self._popen.poll()

    def write(self, text: str) -> None:
        """Writes to its standard input."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(text)
        self._popen.stdin.flush()

    def wait_for(self, text: str, timeout: float = 30.0) -> str:
        """Waits for a line with this text and gives the line."""
        until = time.monotonic() + timeout
        seen = 0
        with self._more:
            while True:
                for line in self._lines[seen:]:
                    if text in line:
                        return line
                seen = len(self._lines)
                left = until - time.monotonic()
                if self._ended or left <= 0 or not self._more.wait(left):
                    break
        ended = " before it ended" if self._ended else f" within {timeout:g} s"
        raise TimedOut(f"{self._name()}: has not written {text!r}{ended}\n{self.output}".rstrip())

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits until it ends and gives how, as a shell shows it."""
        try:
            code = self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{self._name()}: still runs after {timeout:g} s") from None
        self._reader.join(LAST)
        return code

    def stop(self) -> int:
        """Ends it (SIGTERM, then SIGKILL) and gives how it ended."""
        if self._popen.poll() is None:
            self._popen.terminate()
        try:
            self._popen.wait(LAST)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        code = self.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None and not self._reader.is_alive():
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        return code

    def _name(self) -> str:
        return f"node {self.node!r}: {shlex.join(self.command)}"

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()
