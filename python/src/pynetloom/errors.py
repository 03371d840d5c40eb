"""Everything that pynetloom raises by itself; all of it is an `Error`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Optional


class Error(Exception):
    """A lab, the program `netloom` or the API could not do what was asked."""


class NotInstalled(Error):
    """The program `netloom` is not there."""


class CommandError(Error):
    """`netloom` ended with an error. Its text is what `netloom` said."""

    def __init__(self, command: Sequence[str], returncode: int, stderr: str) -> None:
        self.command = list(command)
        self.returncode = returncode
        self.stderr = stderr
        text = stderr.strip()
        if text.startswith("netloom: "):
            text = text[len("netloom: ") :]
        if returncode < 0:
            # It was killed, which nothing that it said before tells.
            text = f"{shlex.join(command)}: ended with {returncode}\n{text}".rstrip()
        super().__init__(text or f"{shlex.join(command)}: ended with {returncode}")


class UsageError(CommandError):
    """Wrong usage, or a lab file with errors."""

    STATUS = 2


class Unsupported(CommandError):
    """This machine or user lacks what was asked for."""

    STATUS = 3


class ProgramFailed(Error):
    """A program in a node ended with an error, where `check=True` asks that it does not."""

    def __init__(
        self,
        node: str,
        args: Sequence[str],
        returncode: int,
        stdout: Optional[str],
        stderr: Optional[str],
    ) -> None:
        self.node = node
        self.command = list(args)
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        said = [text.rstrip() for text in (stdout, stderr) if text and text.strip()]
        text = f"node {node!r}: {shlex.join(args)}: ended with {returncode}"
        super().__init__("\n".join([text, *said]))


class TimedOut(Error):
    """Something did not happen in time."""


class Unreachable(Error):
    """No lab process answers."""


class ApiError(Error):
    """The API refused a call (RFC 9457)."""

    def __init__(
        self,
        status: int,
        title: str,
        code: str,
        detail: str,
        subject: Optional[tuple[str, str]] = None,
        problems: Optional[list[tuple[str, str]]] = None,
    ) -> None:
        self.status = status
        """The HTTP status."""
        self.title = title
        """What the status means."""
        self.code = code
        """A word for programs, such as `no_such_node`; it stays the same."""
        self.detail = detail
        """What was tried, on what, and why it failed."""
        self.object = subject
        """Kind and name of what it is about, such as `("node", "h9")`; None where it is not one."""
        self.problems = problems or []
        """Fields of a body that are wrong, and why."""
        lines = [detail] + [f"{path} {message}" for path, message in self.problems]
        super().__init__("\n".join(lines) + f" ({code})")


class NotFound(ApiError):
    """There is no such object (404)."""


class Conflict(ApiError):
    """The request is valid, the lab's state conflicts with it (409)."""


class Unauthorized(ApiError):
    """The token is missing or wrong (401)."""
