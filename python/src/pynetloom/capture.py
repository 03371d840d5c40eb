"""`netloom capture` as an object: from a moment to a moment, into a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Optional

from .command import Netloom, Text, environment, failure
from .errors import Error


class Capture:
    """A capture that runs. Frames count from when the constructor returns; `stop()` completes the file."""

    def __init__(
        self,
        netloom: Netloom,
        lab: str,
        targets: Sequence[str],
        path: Text,
        *,
        filter: str = "",
        options: Sequence[str] = (),
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        what = list(targets) or ["--all"]
        words = ["capture", *what, "--json", "-w", self.path, *options]
        if filter:
            words += ["-f", filter]
        self._command = netloom.command(words, lab)
        self._popen = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._said: list[str] = []
        self._open = threading.Event()
        self._reader = threading.Thread(target=self._read, name="capture", daemon=True)
        self._reader.start()
        self._account: Optional[dict[str, Any]] = None
        self._failure: Optional[Error] = None
        try:
            self._open.wait()
        except BaseException:
            self._popen.kill()
            self._popen.wait()
            raise
        if self._popen.poll() not in (None, 0):
            self.stop()

    def _read(self) -> None:
        assert self._popen.stderr is not None
        for line in self._popen.stderr:
            self._said.append(line)
            # How each interface is captured is told when all of them are.
            if not line.startswith(("note: ", "warning: ", "netloom: ")):
                self._open.set()
        # Without such a line it has failed: only then is its end what is waited for.
        if not self._open.is_set():
            self._popen.wait()
            self._open.set()

    def stop(self) -> dict[str, Any]:
        """Ends it and gives its account: what was offered, filtered, written and lost.

        A frame that no place accounts for is an error. Asked again, it says the same again.
        """
        if self._failure is not None:
            raise self._failure
        if self._account is not None:
            return self._account
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGINT)
        assert self._popen.stdout is not None and self._popen.stderr is not None
        text = self._popen.stdout.read()
        code = self._popen.wait()
        self._reader.join()
        self._popen.stdout.close()
        self._popen.stderr.close()
        if code != 0:
            self._failure = failure(self._command, code, "".join(self._said))
            raise self._failure
        try:
            account: dict[str, Any] = json.loads(text)
        except ValueError:
            self._failure = Error(f"{self.path}: the capture ended without an account: {text!r}")
            raise self._failure from None
        self._account = account
        return account

    def kill(self) -> None:
        """Ends it at once and does not wait; `discard` does."""
        self._popen.kill()

    def discard(self) -> None:
        """Ends it at once and removes its file."""
        self._popen.kill()
        self._popen.wait()
        self._reader.join()
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def __enter__(self) -> Capture:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()
