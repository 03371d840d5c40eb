"""The pytest plug-in: fixtures that bring labs up for tests and always take them down.

A lab has a name of its own for each test, worker and run, so any number of runs may use one file at a time. What takes
it down is, in this order: the end of its scope, also after Ctrl-C; the end of the run, if its worker has crashed; the
next run, if all of pytest was killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Optional, Union

import pytest

from . import kept, owned
from .command import Netloom, Text
from .errors import CommandError, Error, NotInstalled, Unsupported
from .lab import Lab

PLUGIN = "netloom-labs"
SECTION = "netloom"
ENDING = 30.0
"""Seconds that workers have to end before their labs are taken down."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("netloom", "labs of netloom")
    group.addoption("--netloom", metavar="PATH", help="the program netloom. Default: $PYNETLOOM_BINARY, or from PATH")
    group.addoption(
        "--netloom-artifacts",
        metavar="DIR",
        help="where logs and captures of failed tests are kept. Default: netloom-artifacts in pytest's root folder",
    )
    group.addoption(
        "--netloom-capture",
        choices=["failed", "never"],
        default="failed",
        help="whether all links are captured, for tests that fail (default: %(default)s)",
    )
    group.addoption(
        "--netloom-require",
        action="store_true",
        help="fail where this machine cannot run a lab, instead of skipping",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "netloom(file, text=None, scope='function', options=()): the lab that the fixture `lab` is",
    )
    config.pluginmanager.register(Labs(config), PLUGIN)


class Running:
    """A lab of a test or module, with what goes with it."""

    def __init__(self, lab: Lab, record: owned.Record, recorder: kept.Recorder, scratch: str) -> None:
        self.lab = lab
        self.record = record
        self.recorder = recorder
        self.scratch = scratch


class Labs:
    """The labs of this process, which is a worker of xdist or the whole run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        given: dict[str, Any] = getattr(config, "workerinput", {})
        self.worker = str(given.get("workerid", "main"))
        self.is_worker = bool(given)
        self.session = str(given.get("netloom_session") or uuid.uuid4().hex)
        self.live: list[Running] = []
        self._kept: Optional[str] = None
        self._count = 0
        self._cannot: Optional[str] = None
        self._netloom: Optional[Netloom] = None

    # From here on hooks of pytest.

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["netloom_session"] = self.session

    def pytest_sessionstart(self) -> None:
        if not self.is_worker:
            self._tell(owned.sweep(), "left by an earlier run")

    def pytest_unconfigure(self) -> None:
        for running in reversed(self.live[:]):
            # What fails here fails below again, and is told there.
            with contextlib.suppress(Error):
                self.down(running)
        if not self.is_worker:
            self._tell(owned.sweep(self.session, ENDING), "left by a worker that ended")

    def pytest_runtest_setup(self) -> None:
        self._kept = None
        for running in self.live:
            running.recorder.resume()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        report: pytest.TestReport = (yield).get_result()
        if report.failed and self.live:
            report.sections.append((SECTION, "\n".join(self._keep(item.nodeid))))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        reports = [one for kind in ("failed", "error") for one in terminalreporter.stats.get(kind, [])]
        count = sum(any(title == SECTION for title, _ in one.sections) for one in reports)
        if count:
            terminalreporter.write_sep("-", "netloom")
            tests = "1 failed test" if count == 1 else f"{count} failed tests"
            terminalreporter.write_line(f"logs and captures of {tests}: {self.artifacts}")

    # From here on what fixtures use.

    @property
    def artifacts(self) -> str:
        """The folder of what failed tests leave."""
        chosen = self.config.getoption("--netloom-artifacts")
        if chosen is None:
            return str(self.config.rootpath / "netloom-artifacts")
        return str(self.config.invocation_params.dir / str(chosen))

    def up(self, asker: str, file: Optional[str], text: Optional[str], options: Sequence[str]) -> Running:
        """Brings up a lab for a test or module; skips what asks where the machine cannot."""
        __tracebackhide__ = True
        if self._cannot is not None:
            self._skip(self._cannot)
        try:
            netloom = self._program()
        except NotInstalled as error:
            self._skip(str(error))
        label = os.path.splitext(os.path.basename(file))[0] if file is not None else "lab"
        name = self._name(asker)
        scratch = tempfile.mkdtemp(prefix="pynetloom-")
        record = owned.Record(name, self.session, netloom, scratch)
        try:
            lab = Lab.up(file, text=text, name=name, netloom=netloom, options=options)
            recorder = kept.Recorder(lab, scratch, self._label(label), self._captures())
        except BaseException as error:
            unfinished = Lab(name, netloom)
            try:
                owned.wait_for_up(name)
                unfinished.down()
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
                record.close(gone=not os.path.isdir(unfinished.folder))
            if isinstance(error, Unsupported):
                self._skip(str(error))
            if isinstance(error, Error):
                self._cannot = netloom.lacks()
                if self._cannot is not None:
                    self._skip(self._cannot)
            raise
        running = Running(lab, record, recorder, scratch)
        self.live.append(running)
        return running

    def down(self, running: Running) -> None:
        """Takes a lab down. If that fails its record stays, and the end of the run tries again."""
        if running not in self.live:
            return
        self.live.remove(running)
        running.recorder.end()
        try:
            running.lab.down()
        finally:
            running.recorder.discard()
            shutil.rmtree(running.scratch, ignore_errors=True)
            running.record.close(gone=not os.path.isdir(running.lab.folder))

    def _keep(self, test: str) -> list[str]:
        # A test that has failed may fail once more when its fixtures end.
        folder = kept.folder_of(self.artifacts, test, first=self._kept != test)
        self._kept = test
        lines: list[str] = []
        for running in self.live:
            try:
                lines += running.recorder.keep(folder)
            except OSError as error:
                lines.append(f"not all of {running.lab.name} is in {folder}: {error}")
        return lines

    def _program(self) -> Netloom:
        if self._netloom is None:
            self._netloom = Netloom(self.config.getoption("--netloom"))
        return self._netloom

    def _captures(self) -> bool:
        return str(self.config.getoption("--netloom-capture")) == "failed"

    def _skip(self, reason: str) -> None:
        if self.config.getoption("--netloom-require"):
            pytest.fail(f"no lab can run: {reason}", pytrace=False)
        pytest.skip(f"no lab can run: {reason}")

    def _name(self, asker: str) -> str:
        self._count += 1
        short = re.sub(r"[^a-z0-9]+", "-", asker.lower()).strip("-")[:24].strip("-") or "lab"
        return f"{short}-{self.worker}-{self.session[:8]}-{self._count}"

    def _label(self, wanted: str) -> str:
        taken = {running.recorder.label for running in self.live}
        names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def _tell(self, swept: list[tuple[str, Optional[str]]], why: str) -> None:
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        for name, trouble in swept:
            end = "took it down" if trouble is None else f"could not take it down: {trouble}"
            if reporter is not None:
                reporter.write_line(f"netloom: lab {name}, {why}: {end}")


class LabFactory:
    """Brings labs up for one test or module: `lab("x.yaml")`. The same file again is the same lab."""

    def __init__(self, labs: Labs, asker: str, folder: str) -> None:
        self._labs = labs
        self._asker = asker
        self._folder = folder
        self._made: dict[tuple[object, ...], Running] = {}

    def __call__(self, file: Optional[Text] = None, *, text: Optional[str] = None, options: Sequence[str] = ()) -> Lab:
        """The lab of a file, which is looked for beside the test's, or of a text. `options`: of `netloom up`."""
        __tracebackhide__ = True
        path = None if file is None else os.path.join(self._folder, os.fspath(file))
        key = (path, text, tuple(options))
        if key not in self._made:
            self._made[key] = self._labs.up(self._asker, path, text, options)
        return self._made[key].lab

    def close(self) -> None:
        """Takes its labs down, the last one first; tells the first failure when all were tried."""
        first: Optional[BaseException] = None
        for running in reversed(list(self._made.values())):
            try:
                self._labs.down(running)
            except Error as error:
                first = first or error
        self._made.clear()
        if first is not None:
            raise first


@contextlib.contextmanager
def _factory(request: pytest.FixtureRequest, asker: str) -> Iterator[LabFactory]:
    labs = request.config.pluginmanager.getplugin(PLUGIN)
    assert isinstance(labs, Labs)
    factory = LabFactory(labs, asker, str(request.path.parent))
    try:
        yield factory
    finally:
        factory.close()


@pytest.fixture(scope="module")
def module_lab(request: pytest.FixtureRequest) -> Iterator[LabFactory]:
    """Labs that all tests of a module share: `module_lab("x.yaml")`."""
    with _factory(request, request.path.stem) as factory:
        yield factory


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Union[Lab, LabFactory]]:
    """Labs of one test: `lab("x.yaml")`; with the mark `netloom("x.yaml")` that running lab itself."""
    mark = request.node.get_closest_marker("netloom")
    if mark is None:
        with _factory(request, request.node.name) as factory:
            yield factory
        return
    how = dict(mark.kwargs)
    scope = how.pop("scope", "function")
    if scope not in ("function", "module"):
        raise pytest.UsageError(f"mark netloom: scope {scope!r} is not 'function' or 'module'")
    if scope == "module":
        yield _marked(request.getfixturevalue("module_lab"), mark.args, how)
        return
    with _factory(request, request.node.name) as factory:
        yield _marked(factory, mark.args, how)


def _marked(factory: LabFactory, args: Sequence[Any], how: dict[str, Any]) -> Lab:
    """The lab of a mark. What is wrong with it is netloom's to say: no line of Python would add to that."""
    try:
        return factory(*args, **how)
    except CommandError as error:
        return pytest.fail(str(error), pytrace=False)
