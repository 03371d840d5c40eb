"""Labs that test runs own: each has a record, which its owner keeps locked while it lives.

A record that can be locked belongs to nobody any more: its owner ended without taking its lab down, by a crash or a
SIGKILL. The run that finds it takes the lab down. The lock (flock(2)) is the kernel's, so no process ID is believed.
Records stand beside the folder of labs, so runs with another `NETLOOM_RUNTIME_DIR` do not see them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from typing import Optional

from .client import runtime_dir
from .command import Netloom
from .errors import Error
from .lab import Lab

LOOK = 0.05
"""Seconds between two looks for a process that has to end."""


class Record:
    """The record of a lab that this process owns. It is there before the lab, and goes after it."""

    def __init__(self, name: str, session: str, netloom: Netloom, scratch: str) -> None:
        self._path = os.path.join(_folder_path(), f"{name}.json")
        hidden = os.path.join(_folder_path(), f".{name}.{os.getpid()}")
        self._file = _new(hidden)
        # Locked before it has its name: nobody sees it without its owner.
        fcntl.flock(self._file, fcntl.LOCK_EX)
        told = {"lab": name, "session": session, "netloom": netloom.path, "scratch": scratch}
        os.write(self._file, json.dumps(told).encode())
        os.rename(hidden, self._path)

    def close(self, gone: bool) -> None:
        """Gives the lab up: it is gone, or the next sweep takes it down."""
        if gone:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        os.close(self._file)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(self._path))


def sweep(session: Optional[str] = None, patience: float = 0.0) -> list[tuple[str, Optional[str]]]:
    """Takes down labs without an owner; gives their names, and why one could not be.

    With a session only its labs, whose owners have `patience` seconds to end.
    """
    folder = _folder_path()
    if not _is_own(folder):
        return []
    done: list[tuple[str, Optional[str]]] = []
    until = time.monotonic() + patience
    for file in _names(folder):
        if file.endswith(".json"):
            with _owner_gone(os.path.join(folder, file), session, until) as told:
                if told is not None:
                    trouble = _take_down(told)
                    done.append((told["lab"], trouble))
                    if trouble is None:
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(os.path.join(folder, file))
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return done


def _names(folder: str) -> list[str]:
    """What is in a folder, which may have gone by now."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def _owner_gone(path: str, session: Optional[str], until: float) -> Iterator[Optional[dict[str, str]]]:
    """What a record tells, locked; None where it has an owner, or is of another session."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        told = _read(file)
        ours = told is not None and (session is None or told["session"] == session)
        free = ours and _locked(file, until if session is not None else 0.0)
        # Its owner may have removed it in between.
        yield told if free and os.path.exists(path) else None
    finally:
        os.close(file)


def _read(file: int) -> Optional[dict[str, str]]:
    """A record; None of a file that is none."""
    try:
        told = json.loads(os.read(file, 65536))
    except (OSError, ValueError):
        return None
    whole = isinstance(told, dict) and {"lab", "session", "netloom", "scratch"} <= set(told)
    return told if whole else None


def _locked(file: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK)


def _take_down(told: dict[str, str]) -> Optional[str]:
    try:
        wait_for_up(told["lab"])
        Lab(told["lab"], Netloom(told["netloom"])).down()
    except Error as error:
        return str(error)
    scratch = told.get("scratch") or ""
    if os.path.basename(scratch).startswith("pynetloom-") and _is_own(scratch):
        shutil.rmtree(scratch, ignore_errors=True)
    return None


def wait_for_up(name: str, patience: float = 60.0) -> None:
    """Waits for the end of a `netloom up`, which goes on when its caller is killed or interrupted.

    Names of labs are unique, so it is found by that.
    """
    until = time.monotonic() + patience
    while any(_is_up_of(name, pid) for pid in os.listdir("/proc") if pid.isdigit()):
        if time.monotonic() >= until:
            raise Error(f"lab {name!r}: netloom up does not end")
        time.sleep(LOOK)


def _is_up_of(name: str, pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return b"up" in words and b"--name" in words and name.encode() in words


def _folder_path() -> str:
    return runtime_dir() + ".pytest"


def _new(file: str) -> int:
    """Makes a file in the folder of records, which another process may remove with its last record at any time."""
    folder = _folder_path()
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        with contextlib.suppress(FileNotFoundError):
            if not _owned(os.lstat(folder)):
                raise Error(f"{folder}: must be a folder of this user's own that nobody else writes to")
            return os.open(file, flags, 0o600)


def _is_own(path: str) -> bool:
    try:
        return _owned(os.lstat(path))
    except OSError:
        return False


def _owned(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
