"""Labs, their nodes and links, as a test or a script wants them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union

from . import schemas as s
from .capture import Capture
from .client import Api, runtime_dir
from .command import Netloom, Text, environment, failure
from .errors import ApiError, CommandError, Error, NotFound, ProgramFailed, TimedOut, Unreachable
from .process import Process

Found = TypeVar("Found")
Command = Union[str, Sequence[str]]
"""A program and its arguments; a text is split as a shell splits it, without one."""


class Lab:
    """A running lab. `Lab.up(FILE)` brings one up; as a context manager it is down at the end of the block."""

    def __init__(self, name: str, netloom: Optional[Netloom] = None) -> None:
        self.name = name
        self.netloom = netloom or Netloom()
        self.folder = os.path.join(runtime_dir(), name)
        self.api = Api.of(name)
        self._processes: list[Process] = []
        self._captures: list[Capture] = []

    @classmethod
    def up(
        cls,
        file: Optional[Text] = None,
        *,
        text: Optional[str] = None,
        name: Optional[str] = None,
        netloom: Union[Netloom, Text, None] = None,
        replace: bool = False,
        options: Sequence[str] = (),
    ) -> Lab:
        """Brings a lab up, from its file or from the text of one; returns when every node is ready.

        `name` is the lab's, instead of the file's. `replace`: a lab of this name is taken down first. `options` are
        further ones of `netloom up`. A file with errors is a `UsageError` that has them all, with their lines.
        """
        __tracebackhide__ = True
        if (file is None) == (text is None):
            raise ValueError("give the file of a lab or its text, one of them")
        program = netloom if isinstance(netloom, Netloom) else Netloom(netloom)
        words: list[Text] = ["up", *options]
        words += ["--replace"] if replace else []
        words += ["--name", name] if name is not None else []
        words.append("-" if file is None else file)
        said = program.run(words, input=text)
        found = re.search(r"^lab ([\w.-]+): ", said, re.MULTILINE)
        if found is None:
            raise Error(f"netloom up: unexpected reply {said!r}")
        return cls(found.group(1), program)

    @classmethod
    def running(cls, name: str, netloom: Union[Netloom, Text, None] = None) -> Lab:
        """A lab that is up already."""
        lab = cls(name, netloom if isinstance(netloom, Netloom) else Netloom(netloom))
        lab.status()
        return lab

    def down(self) -> None:
        """Takes the lab down. A Ctrl-C meanwhile is raised when nothing is left of it."""
        try:
            self._end_of_work()
        finally:
            self._take_down()

    def _take_down(self) -> None:
        if not os.path.isdir(self.folder):
            return
        try:
            self.netloom.run(["down", self.name], uninterrupted=True)
        except CommandError:
            # Of two that take it down at a time one finds it gone.
            if os.path.isdir(self.folder):
                raise

    def _end_of_work(self) -> None:
        captures, self._captures = self._captures, []
        processes, self._processes = self._processes, []
        for process in processes:
            process.stop()
        for capture in captures:
            # Of one that has failed the caller did not ask; the file is as whole as it can be.
            with contextlib.suppress(Error):
                capture.stop()

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.down()

    def __repr__(self) -> str:
        return f"Lab({self.name!r})"

    # What is in it.

    def status(self) -> s.LabStatus:
        """State, use, interfaces and counters of everything."""
        return self.api.status()

    def plan(self) -> s.Plan:
        """Names, addresses and routes as they were decided."""
        return self.api.plan()

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes, in the order of the file."""
        return [node["name"] for node in self.api.nodes()]

    @property
    def links(self) -> list[str]:
        """The names of its links, in the order of the file."""
        return [link["name"] for link in self.api.links()]

    def node(self, name: str) -> Node:
        """A node; `NotFound` if there is none of this name."""
        self.api.node(name)
        return Node(self, name)

    def link(self, name: str, other: Optional[str] = None) -> Link:
        """A link: by its name, by both ends (`lab.link("h1", "s1")`), or by both in one word, `h1-s1`.

        An end is a node, a switch, or NODE:IFACE.
        """
        links = self.api.links()
        found = [link for link in links if _is_named(link, name, other)]
        if len(found) == 1:
            return Link(self, found[0]["name"])
        asked = name if other is None else f"{name} and {other}"
        names = ", ".join(link["name"] for link in (found or links))
        many = "several links could be meant" if found else "no link has this name or these ends"
        raise Error(f"lab {self.name!r}: {asked!r}: {many}; write one of: {names}")

    def logs(self, node: str, tail: Optional[int] = None) -> list[s.LogLine]:
        """What programs of a node have written, or the last lines of it."""
        return self.api.log(node, tail=tail)

    def events(self, since: Optional[str] = None) -> Iterator[s.LabEvent]:
        """What happens in it, from now on or behind an event, until the lab is down."""
        return self.api.stream_events(since)

    # What is done with it.

    def ping_all(self, family: Optional[int] = None, timeout: float = 1.0) -> Reachability:
        """Sends one echo request from every node to every other."""
        return Reachability.read(self.api.ping(family=_family(family), timeout_ms=round(timeout * 1000)))

    def ping(
        self,
        sender: str,
        receiver: str,
        *,
        count: int = 3,
        interval: float = 0.2,
        family: Optional[int] = None,
        timeout: float = 1.0,
    ) -> list[Answers]:
        """Sends echo requests from one node to another; the answers by address family."""
        told = self.api.ping_pair(
            sender,
            to=receiver,
            count=count,
            family=_family(family),
            interval_ms=round(interval * 1000),
            timeout_ms=round(timeout * 1000),
        )
        return [
            Answers(one["version"], one["address"], [_seconds(rtt) for rtt in one["rtt_us"]])
            for one in told["families"]
        ]

    def apply(self, file: Text, *, dry_run: bool = False, keep_drift: bool = False) -> s.Applied:
        """Turns the lab into the one of a file, and gives the steps; what is in use may end."""
        words: list[Text] = ["apply", file, "--name", self.name, "--json"]
        words += ["--dry-run"] if dry_run else ["--yes"]
        words += ["--keep-drift"] if keep_drift else []
        told: s.Applied = self.netloom.json(words)
        return told

    def measure(self, sender: str, receiver: str, duration: str, *options: str) -> list[dict[str, Any]]:
        """Measures live traffic between two nodes hop by hop; needs root.

        Gives the records that `netloom measure --json` prints for all blocks together; `options` are further ones.
        """
        words = ["measure", sender, receiver, "--for", duration, "--json", "--quiet", *options]
        said = self.netloom.run(words, lab=self.name)
        return [json.loads(line) for line in said.splitlines() if line.strip()]

    def capture(self, path: Text, *targets: str, filter: str = "", options: Sequence[str] = ()) -> Capture:
        """Captures all links, or the given targets, into a file until `.stop()` or the end of the `with` block."""
        capture = Capture(self.netloom, self.name, targets, path, filter=filter, options=options)
        self._captures.append(capture)
        return capture


@dataclass(frozen=True)
class Node:
    """A node of a running lab."""

    lab: Lab
    name: str

    def status(self) -> s.NodeStatus:
        """Its state, use, interfaces and programs."""
        return self.lab.api.node(self.name)

    @property
    def addresses(self) -> list[str]:
        """Its addresses with their prefixes, as its kernel has them now."""
        return self.status().get("addresses", [])

    def address(self, family: int = 4) -> str:
        """Its first address of a family, without the prefix."""
        found = [one.split("/")[0] for one in self.addresses if (":" in one) == (family == 6)]
        if not found:
            raise Error(f"node {self.name!r}: has no IPv{family} address")
        return found[0]

    def run(
        self,
        args: Command,
        *,
        input: Optional[str] = None,
        timeout: Optional[float] = None,
        check: bool = False,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program in the node to its end, as `subprocess.run` does, with its output as text.

        `check`: an exit status other than 0 is a `ProgramFailed`, whose text has the output. After `timeout` seconds
        the program is killed: `TimedOut`. A shell is used only where the arguments name one.
        """
        __tracebackhide__ = True
        words = _words(args)
        command = self._exec(words, cwd, env)
        try:
            done = subprocess.run(
                command,
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                timeout=timeout,
                check=False,
                env=environment(),
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            said = "\n".join(_decoded(part) for part in (error.stdout, error.stderr) if part)
            text = f"node {self.name!r}: {shlex.join(words)}: not done after {timeout:g} s"
            raise TimedOut(f"{text}\n{said}".rstrip()) from None
        if done.returncode in (1, 2, 3):
            self._must_run(command, done)
        if check and done.returncode != 0:
            raise ProgramFailed(self.name, words, done.returncode, done.stdout, done.stderr)
        return subprocess.CompletedProcess(words, done.returncode, done.stdout, done.stderr)

    def start(
        self,
        args: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> Process:
        """Starts a program in the node that runs beside the test, at most until the lab is down."""
        words = _words(args)
        process = Process(self.name, words, self._exec(words, cwd, env))
        self.lab._processes.append(process)
        return process

    def write_file(self, path: str, content: Union[str, bytes]) -> None:
        """Writes a file of the node's own; the host never sees it."""
        data = content.encode() if isinstance(content, str) else content
        # The mode is the one that the node's file gets; the folder is nobody else's.
        with tempfile.TemporaryDirectory(prefix="pynetloom-") as folder:
            source = os.path.join(folder, "file")
            with open(source, "wb") as file:
                file.write(data)
            os.chmod(source, 0o644)
            self.lab.netloom.run(["cp", source, f"{self.name}:{path}"], lab=self.lab.name)

    def read_file(self, path: str) -> str:
        """Reads a file of the node."""
        return self.lab.netloom.run(["cp", f"{self.name}:{path}", "-"], lab=self.lab.name)

    def ping(self, receiver: str, **how: Any) -> list[Answers]:
        """Sends echo requests to another node; `Lab.ping` has the arguments."""
        return self.lab.ping(self.name, receiver, **how)

    def _exec(self, words: Sequence[str], cwd: Optional[str], env: Optional[Mapping[str, str]]) -> list[str]:
        around: list[str] = []
        if cwd is not None or env:
            around = ["env", *(["-C", cwd] if cwd is not None else [])]
            around += [f"{key}={value}" for key, value in (env or {}).items()]
        return self.lab.netloom.command(["exec", self.name, "--", *around, *words], self.lab.name)

    def _must_run(self, command: list[str], done: subprocess.CompletedProcess[str]) -> None:
        """Tells an end that netloom has from one of the program with the same status: is the node there?"""
        try:
            alive = self.status()["alive"]
        except (NotFound, Unreachable):
            alive = False
        if not alive:
            raise failure(command, done.returncode, done.stderr)


@dataclass(frozen=True)
class Link:
    """A link of a running lab."""

    lab: Lab
    name: str

    def status(self) -> s.LinkStatus:
        """Its state, what it lost, and its wire."""
        return self.lab.api.link(self.name)

    def impair(self, *, sender: Optional[str] = None, **settings: str) -> s.LinkStatus:
        """Sets what the link does to packets: `impair(delay="20ms", loss="1%")`. Others stay as they are.

        Keys and values are those of the lab file: delay, jitter, loss, duplicate, reorder, corrupt, rate, queue, mtu,
        seed, limit, drop; the value `none` takes one away. `sender`: only what this end sends.
        """
        if not settings:
            raise ValueError('impair: name an impairment, as in impair(delay="20ms")')
        change: s.LinkSettings = {"settings": [[key, str(value)] for key, value in settings.items()]}
        return self._set(change, sender)

    def clear(self, *, sender: Optional[str] = None) -> s.LinkStatus:
        """Takes all impairments away."""
        return self._set({"clear": True}, sender)

    def down(self) -> s.LinkStatus:
        """Takes it down, as if its cable were pulled."""
        return self.lab.api.set_link(self.name, {"up": False})

    def up(self) -> s.LinkStatus:
        """Takes it up again."""
        return self.lab.api.set_link(self.name, {"up": True})

    def _set(self, change: s.LinkSettings, sender: Optional[str]) -> s.LinkStatus:
        if sender is not None:
            ends = self.status()["ends"]
            which = [at for at, end in enumerate(ends) if _is_end(end, sender)]
            if len(which) != 1:
                raise Error(f"link {self.name!r}: {sender!r} is not one of its ends: {', '.join(ends)}")
            change["end"] = which[0]
        return self.lab.api.set_link(self.name, change)


@dataclass(frozen=True)
class Answers:
    """Answers to echo requests in one address family."""

    family: int
    address: str
    times: list[Optional[float]]
    """By request the round-trip time in seconds; None where no answer came in time."""

    @property
    def lost(self) -> int:
        """How many had no answer."""
        return self.times.count(None)


@dataclass(frozen=True)
class Reachability:
    """Which node reaches which. It is true where every pair that has addresses answers."""

    times: dict[tuple[str, str, int], Optional[float]]
    """By sender, receiver and address family the round-trip time in seconds, None without an answer."""
    asked: int

    @classmethod
    def read(cls, told: s.Reachability) -> Reachability:
        """From the API's answer."""
        times: dict[tuple[str, str, int], Optional[float]] = {}
        names = told["nodes"]
        asked = 0
        for family in told["families"]:
            asked += family["asked"]
            for sender, row in zip(names, family["rtt_us"]):
                for receiver, rtt in zip(names, row):
                    if sender != receiver:
                        times[(sender, receiver, family["version"])] = _seconds(rtt)
        return cls(times, asked)

    @property
    def answered(self) -> int:
        """How many pairs answered, over both families."""
        return sum(time is not None for time in self.times.values())

    @property
    def failures(self) -> list[str]:
        """Pairs without an answer, as `IPv4 h1 -> h2`; also those of which one has no address of the family."""
        return [
            f"IPv{family} {sender} -> {receiver}"
            for (sender, receiver, family), time in self.times.items()
            if time is None
        ]

    def __bool__(self) -> bool:
        return self.answered == self.asked


def wait_until(condition: Callable[[], Found], what: str, timeout: float = 30.0, pause: float = 0.02) -> Found:
    """Asks again and again, with growing pauses, until the answer is true, and gives it.

    A refusal of the API and a program that failed count as no. Afterwards: `TimedOut`, with the last one.
    """
    until = time.monotonic() + timeout
    last: Optional[Error] = None
    while True:
        try:
            found = condition()
            if found:
                return found
        except (ApiError, ProgramFailed) as error:
            last = error
        left = until - time.monotonic()
        if left <= 0:
            raise TimedOut(f"{what}: not within {timeout:g} s") from last
        time.sleep(min(pause, left))
        pause = min(2 * pause, 1.0)


def _words(args: Command) -> list[str]:
    words = shlex.split(args) if isinstance(args, str) else [str(arg) for arg in args]
    if not words:
        raise ValueError("name a program to run")
    return words


def _is_end(end: str, named: str) -> bool:
    return named in (end, end.split(":")[0])


def _is_named(link: s.LinkStatus, name: str, other: Optional[str]) -> bool:
    ends = link["ends"]
    if len(ends) != 2:
        return other is None and link["name"] == name
    pairs = [(name, other)] if other is not None else _halves(name)
    return (other is None and link["name"] == name) or any(
        (_is_end(ends[0], a) and _is_end(ends[1], b)) or (_is_end(ends[0], b) and _is_end(ends[1], a)) for a, b in pairs
    )


def _halves(word: str) -> list[tuple[str, str]]:
    """Both sides of each `-`, since names may have some, too."""
    return [(word[:at], word[at + 1 :]) for at, sign in enumerate(word) if sign == "-"]


def _family(family: Optional[int]) -> Any:
    if family not in (None, 4, 6):
        raise ValueError(f"family {family!r} is not 4, 6 or None for both")
    return None if family is None else str(family)


def _seconds(micros: Optional[int]) -> Optional[float]:
    return None if micros is None else micros / 1e6


def _decoded(part: Union[str, bytes]) -> str:
    return part if isinstance(part, str) else part.decode("utf-8", "replace")
