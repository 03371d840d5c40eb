"""The plug-in: pytest in pytest, with labs that must be gone afterwards however it ended."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PAIR

import pynetloom
from pynetloom import Lab, Netloom, wait_until
from pynetloom.client import runtime_dir

BOUND = 120.0


@pytest.fixture(autouse=True)
def nothing_left(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of labs of the test's own, empty at its end."""
    # The folder's path has to be short, for the sockets in it.
    short = tempfile.mkdtemp(prefix="nl-")
    monkeypatch.setenv("NETLOOM_RUNTIME_DIR", f"{short}/run")
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(pynetloom.__file__)))
    # The inner run reports to nobody.
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    pytester.path.joinpath("pair.yaml").write_text(PAIR)
    os.mkdir(f"{short}/run", 0o700)
    try:
        yield
        assert labs() == []
        assert records() == []
    finally:
        Netloom().run(["down", "--all"])
        shutil.rmtree(short)


def labs() -> list[str]:
    return [str(lab["name"]) for lab in Netloom().json(["ls", "--json"])]


def records() -> list[str]:
    folder = Path(runtime_dir() + ".pytest")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *PLUGIN, *args)


# Where the package is installed, pytest finds the plug-in by itself.
PLUGIN = [] if os.environ.get("PYNETLOOM_INSTALLED") else ["-p", "pynetloom.pytest_plugin"]


def begin(pytester: pytest.Pytester, *args: str) -> "subprocess.Popen[bytes]":
    """Starts pytest in a process group of its own, as a terminal does."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *PLUGIN, *args]
    return subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, start_new_session=True)


def wait_for_begun(pytester: pytest.Pytester, process: "subprocess.Popen[bytes]") -> None:
    """Waits until the test of `STAYS` runs, or pytest has ended."""
    begun = pytester.path / "begun"
    wait_until(lambda: begun.exists() or process.poll() is not None, "the test", BOUND)
    assert begun.exists(), process.communicate()[0].decode()


def test_a_factory_and_a_mark(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_factory(lab):
            first, second = lab("pair.yaml"), lab(text="nodes: {x: {}}")
            assert first is lab("pair.yaml") and first.name != second.name
            assert first.ping_all() and second.nodes == ["x"]

        @pytest.mark.netloom("pair.yaml")
        def test_mark(lab):
            assert lab.node("a").run("curl -fsS http://b/", check=True).stdout

        names = set()

        @pytest.mark.netloom("pair.yaml", scope="module")
        @pytest.mark.parametrize("x", [1, 2])
        def test_module(lab, x):
            names.add(lab.name)
            assert len(names) == 1
        """
    )
    run(pytester).assert_outcomes(passed=4)
    assert not (pytester.path / "netloom-artifacts").exists()


def test_two_workers_use_one_file(pytester: pytest.Pytester) -> None:
    """Both hold their labs until the other has one, too."""
    pytester.makepyfile(
        """
        import pytest, pathlib
        from pynetloom import wait_until

        @pytest.mark.parametrize("mine,other", [("1", "2"), ("2", "1")])
        def test_beside(lab, mine, other, worker_id):
            here = pathlib.Path(__file__).parent
            made = lab("pair.yaml")
            assert worker_id in made.name
            (here / mine).write_text(made.name)
            found = wait_until(lambda: (here / other).exists() and (here / other).read_text(), "the other's", 100)
            assert found != made.name
            assert made.ping_all()
        """
    )
    run(pytester, "-n", "2").assert_outcomes(passed=2)


# What the server has written before it answered, the node's init still has to take.
FAILING = """
    from pynetloom import wait_until

    def test_fails(lab):
        made = lab("pair.yaml")
        made.node("a").run("curl -fsS http://b/", check=True)
        wait_until(lambda: any("GET / " in line["text"] for line in made.logs("b")), "the log", 60)
        made.node("a").start(["sh", "-c", "echo beside"]).wait_for("beside")
        assert False, "as it must"

    def test_passes(lab):
        lab("pair.yaml").node("a").run("curl -fsS http://b/", check=True)
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_failed_test_leaves_logs_and_a_capture(pytester: pytest.Pytester, workers: list[str]) -> None:
    pytester.makepyfile(test_it=FAILING)
    result = run(pytester, *workers, "--netloom-artifacts", "kept")
    result.assert_outcomes(passed=1, failed=1)
    folder = pytester.path / "kept" / "test_it.py" / "test_fails"
    assert [path.name for path in folder.parent.iterdir()] == ["test_fails"]
    files = {path.name for path in folder.iterdir()}
    assert files == {"pair.pcapng", "pair.status.json", "pair.b.log", "pair.a.started-1.log"}
    assert "GET / " in (folder / "pair.b.log").read_text()
    assert (folder / "pair.a.started-1.log").read_text() == "beside\n"
    assert json.loads((folder / "pair.status.json").read_text())["state"] == "up"
    capture = (folder / "pair.pcapng").read_bytes()
    assert capture[:4] == b"\x0a\x0d\x0d\x0a" and b"GET / HTTP/1.1" in capture
    assert folder.stat().st_mode & 0o077 == 0
    result.stdout.fnmatch_lines(
        ["*- netloom -*", f"*{folder}/pair.pcapng", "logs and captures of 1 failed test:*/kept"]
    )


def test_a_module_goes_on_behind_a_failed_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        pytestmark = pytest.mark.netloom("pair.yaml", scope="module")

        @pytest.mark.parametrize("x", [1, 2])
        def test_it(lab, x):
            lab.node("a").run(f"curl -fsS http://b/?{x}")
            assert False
        """
    )
    run(pytester).assert_outcomes(failed=2)
    files = sorted((pytester.path / "netloom-artifacts" / "test_it.py").glob("*/pair.pcapng"))
    assert [path.parent.name[:10] for path in files] == ["test_it-1-", "test_it-2-"]
    kept = [path.read_bytes() for path in files]
    assert [[f"?{x} ".encode() in text for x in (1, 2)] for text in kept] == [[True, False], [False, True]]


def test_a_test_that_fails_twice_keeps_its_capture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def late():
            yield
            raise ValueError("late")

        def test_it(module_lab, late):
            module_lab("pair.yaml").node("a").run("curl -fsS http://b/", check=True)
            assert False

        def test_other(module_lab):
            module_lab("pair.yaml")
        """
    )
    for _ in range(2):
        run(pytester).assert_outcomes(passed=1, failed=1, errors=1)
        folder = pytester.path / "netloom-artifacts" / "test_it.py" / "test_it"
        assert {path.name for path in folder.iterdir()} == {"pair.pcapng", "pair.status.json", "pair.b.log"}
        assert b"GET / HTTP/1.1" in (folder / "pair.pcapng").read_bytes()
        # What an earlier run left goes with the next one.
        (folder / "pair.status.json").rename(folder / "other")


def test_a_lab_that_does_not_come_up_says_why(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("wrong.yaml").write_text("nodes:\n  a: {forwading: true}\n")
    pytester.path.joinpath("late.yaml").write_text(
        "nodes:\n  a: {run: 'false', ready: {exec: 'false', timeout: 100ms}}\n"
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.netloom("wrong.yaml")
        def test_wrong(lab):
            pass

        @pytest.mark.netloom("late.yaml")
        def test_late(lab):
            pass

        @pytest.mark.netloom("late.yaml", scope="galaxy")
        def test_scope(lab):
            pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*scope 'galaxy' is not 'function' or 'module'*"])
    result.stdout.fnmatch_lines(["*wrong.yaml:2:*forwading*", "*test-late-*not ready*"])


STAYS = """
    import pathlib, pytest, threading

    @pytest.fixture
    def other(lab):
        yield lab("pair.yaml")
        pathlib.Path(__file__).with_name("cleaned").touch()

    def test_stays(other, lab):
        pathlib.Path(__file__).with_name("begun").touch()
        other.node("a").run("sleep 86400")
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_ctrl_c_leaves_no_lab(pytester: pytest.Pytester, workers: list[str]) -> None:
    pytester.makepyfile(test_it=STAYS)
    process = begin(pytester, *workers)
    wait_for_begun(pytester, process)
    assert len(labs()) == 1
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=BOUND)
    assert process.returncode == 2, out.decode()
    assert labs() == [] and records() == []


def test_a_worker_that_crashes_leaves_no_lab(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os

        def test_crash(lab):
            lab("pair.yaml")
            os._exit(9)
        """
    )
    result = run(pytester, "-n", "1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*netloom: lab test-crash-gw0-*, left by a worker that ended: took it down*"])


def test_the_next_run_takes_down_what_a_killed_one_left(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=STAYS, test_other="def test_other(): pass")
    process = begin(pytester, "test_it.py")
    wait_for_begun(pytester, process)
    process.kill()
    process.communicate()
    assert len(labs()) == 1 and len(records()) == 1
    # A run beside it, in another folder of labs, does not touch it.
    elsewhere = {**os.environ, "NETLOOM_RUNTIME_DIR": f"{runtime_dir()}-2"}
    os.mkdir(f"{runtime_dir()}-2", 0o700)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *PLUGIN, "test_other.py"]
    subprocess.run(command, env=elsewhere, cwd=pytester.path, check=True, stdout=subprocess.DEVNULL)
    assert len(labs()) == 1
    result = run(pytester, "test_other.py")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*netloom: lab test-stays-main-*, left by an earlier run: took it down*"])


def test_a_lab_of_a_living_run_is_not_touched(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=STAYS, test_other="def test_other(): pass")
    process = begin(pytester, "test_it.py")
    try:
        wait_for_begun(pytester, process)
        run(pytester, "test_other.py").assert_outcomes(passed=1)
        assert len(labs()) == 1
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=BOUND)


CANNOT = """#!/bin/sh
case $1 in
doctor) echo '[{"feature": "namespaces", "available": false, "detail": "refused", "needs": "allow them"}]'; exit 3 ;;
*) echo 'netloom: user namespaces: refused' >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize("required", [False, True])
def test_a_machine_that_cannot(pytester: pytest.Pytester, required: bool) -> None:
    fake = pytester.path / "cannot"
    fake.write_text(CANNOT)
    fake.chmod(0o755)
    pytester.makepyfile("def test_it(lab): lab('pair.yaml')\ndef test_again(lab): lab('pair.yaml')")
    result = run(pytester, "-rs", "--netloom", str(fake), *(["--netloom-require"] if required else []))
    result.assert_outcomes(**outcome(required, 2))
    result.stdout.fnmatch_lines(["*no lab can run: namespaces: refused: allow them*"])


def test_a_lab_that_needs_what_is_missing(pytester: pytest.Pytester) -> None:
    fake = pytester.path / "lacks"
    fake.write_text("#!/bin/sh\necho 'netloom: FRR: not available here: install frr' >&2; exit 3\n")
    fake.chmod(0o755)
    pytester.makepyfile("def test_it(lab): lab('pair.yaml')")
    result = run(pytester, "-rs", "--netloom", str(fake))
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no lab can run: FRR: not available here: install frr*"])


@pytest.mark.parametrize("required", [False, True])
def test_a_machine_without_netloom(pytester: pytest.Pytester, required: bool) -> None:
    pytester.makepyfile("def test_it(lab): lab('pair.yaml')")
    result = run(pytester, "-rs", "--netloom", "/no/such", *(["--netloom-require"] if required else []))
    result.assert_outcomes(**outcome(required, 1))
    result.stdout.fnmatch_lines(["*no lab can run: /no/such: there is no such program*"])


def outcome(required: bool, count: int) -> dict[str, int]:
    return {"failed" if required else "skipped": count}


def test_a_name_from_the_environment_is_not_taken(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETLOOM_LAB", "mine")
    with Lab.up(text=PAIR, name="mine"):
        pytester.makepyfile("def test_it(lab): assert lab('pair.yaml').name != 'mine'")
        run(pytester).assert_outcomes(passed=1)
        assert labs() == ["mine"]


def test_help_names_the_options(pytester: pytest.Pytester) -> None:
    text = run(pytester, "--help").stdout.str()
    for option in ("--netloom=PATH", "--netloom-artifacts=DIR", "--netloom-capture", "--netloom-require"):
        assert re.search(re.escape(option), text), text
