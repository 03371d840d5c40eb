"""Labs, nodes and links with the real program, and its answers beside their types."""

import json
import os
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
from conftest import PAIR

from pynetloom import (
    Api,
    CommandError,
    Error,
    Lab,
    Link,
    Netloom,
    NotFound,
    Process,
    ProgramFailed,
    TimedOut,
    Unauthorized,
    UsageError,
    api,
    schemas,
    wait_until,
)
from pynetloom.pytest_plugin import LabFactory


@pytest.fixture(scope="module")
def pair(module_lab: LabFactory) -> Lab:
    return module_lab(text=PAIR)


def passes(lab: Lab) -> None:
    """Waits until frames pass: the kernel opens interfaces some time after their link has come or was changed."""
    wait_until(lambda: lab.ping_all(), "a way between all nodes", 120)


def check(value: Any, kind: Any, place: str) -> None:
    """Fails where a value is not of a type: a missing key, one that the type lacks, another kind of value."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, typing.ForwardRef):
        check(value, getattr(schemas, kind.__forward_arg__), place)
    elif kind is Any:
        pass
    elif origin is typing.Union:
        fits = []
        for one in inner:
            try:
                check(value, one, place)
                fits.append(one)
            except AssertionError as error:
                last = error
        assert fits, f"{place}: no variant of {kind}: {last}"
    elif origin is typing.Literal:
        assert value in inner, f"{place}: {value!r} is not of {inner}"
    elif origin is list:
        assert isinstance(value, list), place
        for at, one in enumerate(value):
            check(one, inner[0], f"{place}[{at}]")
    elif origin is dict:
        assert isinstance(value, dict), place
        for key, one in value.items():
            check(one, inner[1], f"{place}.{key}")
    elif hasattr(kind, "__required_keys__"):
        assert isinstance(value, dict), f"{place}: {value!r}"
        hints = typing.get_type_hints(kind, vars(schemas))
        assert set(value) <= set(hints), f"{place}: {set(value) - set(hints)} are not in the type"
        assert kind.__required_keys__ <= set(value), f"{place}: lacks {kind.__required_keys__ - set(value)}"
        for key, one in value.items():
            check(one, hints[key], f"{place}.{key}")
    elif kind is float:
        assert isinstance(value, (int, float)) and not isinstance(value, bool), place
    else:
        assert isinstance(value, kind) and (kind is bool or not isinstance(value, bool)), f"{place}: {value!r}"


@pytest.mark.parametrize(
    "name,arguments",
    [
        ("status", []),
        ("plan", []),
        ("nodes", []),
        ("node", ["a"]),
        ("links", []),
        ("link", ["a:eth0--b:eth0"]),
        ("interfaces", ["a"]),
        ("interface", ["a", "eth0"]),
        ("switches", []),
        ("log", ["b"]),
        ("events", []),
        ("ping", []),
        ("repair", []),
        ("list_sessions", []),
    ],
)
def test_answers_have_their_types(pair: Lab, name: str, arguments: list[str]) -> None:
    pair.link("a-b").impair(delay="1us")
    kind = typing.get_type_hints(getattr(api.Calls, name), {**vars(api), "s": schemas})["return"]
    check(getattr(pair.api, name)(*arguments), kind, name)


def test_programs_run_in_nodes(pair: Lab) -> None:
    node = pair.node("a")
    done = node.run(["sh", "-c", "cat; echo err >&2; exit 7"], input="in")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in", "err\n")
    assert node.run("hostname").stdout == "a\n"
    assert node.run(["pwd"], cwd="/tmp").stdout == "/tmp\n"
    assert node.run(["sh", "-c", "echo $X"], env={"X": "a b"}).stdout == "a b\n"
    with pytest.raises(ProgramFailed, match=r"node 'a': false: ended with 1"):
        node.run("false", check=True)
    with pytest.raises(TimedOut, match=r"not done after 0\.1 s"):
        node.run("sleep 1000", timeout=0.1)
    # It is killed with the one that ran it; the kernel ends it some time later.
    wait_until(lambda: node.run("pgrep -x sleep").returncode == 1, "the end of the program", 60)


def test_a_status_of_netlooms_own_is_an_exception(pair: Lab) -> None:
    assert pair.node("a").run(["sh", "-c", "exit 1"]).returncode == 1
    with pytest.raises(NotFound) as caught:
        pair.node("nobody")
    assert caught.value.object == ("node", "nobody")
    gone = pair.node("a")
    object.__setattr__(gone, "name", "nobody")
    with pytest.raises(CommandError, match="nobody"):
        gone.run("true")


def test_programs_run_beside_the_test(pair: Lab) -> None:
    with pair.node("a").start(["sh", "-c", "echo begun; read x; echo got $x; exec sleep 1000"]) as process:
        process.wait_for("begun")
        process.write("it\n")
        assert process.wait_for("got") == "got it\n"
        assert process.returncode is None
    assert process.returncode == 128 + 15
    with pytest.raises(TimedOut, match="before it ended"):
        pair.node("a").start("echo other").wait_for("never")


def test_files_of_nodes(pair: Lab) -> None:
    node = pair.node("a")
    node.write_file("/etc/note", "text\n")
    assert node.read_file("/etc/note") == "text\n"
    assert node.run("cat /etc/note").stdout == "text\n"
    assert node.run("stat -c %a /etc/note").stdout == "644\n"
    assert pair.node("b").run("cat /etc/note").returncode == 1
    with pytest.raises(CommandError, match="/no/such"):
        node.read_file("/no/such")


def test_a_file_for_a_node_is_shown_to_nobody_else(pair: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[int] = []
    run = Netloom.run

    def looking(self: Netloom, args: Any, **how: Any) -> str:
        ways.append(os.stat(os.path.dirname(args[1])).st_mode & 0o077)
        return run(self, args, **how)

    monkeypatch.setattr(Netloom, "run", looking)
    pair.node("a").write_file("/etc/secret", b"of the node alone")
    assert ways == [0]


def impairments(link: Link) -> dict[str, dict[str, str]]:
    """By sending end. The wire of an ordinary user's link stays, and carries both directions."""
    wire = link.status().get("wire")
    directions = wire["directions"] if wire is not None else []
    return {one["from"]: one["impairments"] for one in directions if one is not None and one["impairments"]}


def test_links_are_impaired_and_cut(pair: Lab) -> None:
    for link in (pair.link("a-b"), pair.link("b", "a"), pair.link("a:eth0--b:eth0"), pair.link("a:eth0", "b")):
        assert link.name == "a:eth0--b:eth0"
    with pytest.raises(Error, match="no link has this name or these ends; write one of: a:eth0--b:eth0"):
        pair.link("a-c")
    link = pair.link("a-b")
    link.clear()
    link.impair(delay="30ms", sender="a")
    passes(pair)
    answers = pair.ping("a", "b", count=2, interval=0.0, family=4)[0]
    assert answers.lost == 0 and all(time is not None and time >= 0.03 for time in answers.times)
    assert impairments(link) == {"a:eth0": {"delay": "30ms"}}
    link.clear()
    assert impairments(link) == {}
    passes(pair)
    link.down()
    cut = pair.ping_all(family=4, timeout=0.05)
    assert not cut and cut.failures == ["IPv4 a -> b", "IPv4 b -> a"]
    link.up()
    with pytest.raises(Error, match="not one of its ends: a:eth0, b:eth0"):
        link.impair(loss="1%", sender="c")


def test_logs_and_events(pair: Lab) -> None:
    passes(pair)
    pair.node("a").run("curl -fsS http://b/", check=True)
    # The server has written it before it answered; the node's init still has to take it.
    wait_until(lambda: any("GET / " in line["text"] for line in pair.logs("b")), "the line of the log", 60)
    events = pair.events()
    first = next(events)
    assert first["kind"] == "snapshot" and [node["name"] for node in first["nodes"]] == ["a", "b"]
    pair.link("a-b").impair(loss="0.5%")
    change = next(event for event in events if event.get("links"))
    assert change["kind"] == "change" and change["links"][0]["name"] == "a:eth0--b:eth0"
    again = pair.events(first["id"])
    assert next(again)["kind"] == "change"
    pair.link("a-b").clear()


def test_a_capture_has_what_passes(pair: Lab, tmp_path: Path) -> None:
    passes(pair)
    file = tmp_path / "all.pcapng"
    with pair.capture(file, filter="icmp") as capture:
        pair.ping("a", "b", count=3, interval=0.0, family=4)
    account = capture.stop()
    assert file.stat().st_size > 0 and json.dumps(account)
    assert file.read_bytes().count(b"\x08\x00\x45\x00") >= 6
    with pytest.raises(CommandError, match="nobody"):
        pair.capture(tmp_path / "x.pcapng", "nobody:eth0")


def test_a_changed_file_is_applied(lab: LabFactory, tmp_path: Path) -> None:
    made = lab(text=PAIR)
    file = tmp_path / "changed.yaml"
    file.write_text(PAIR.replace("a: {}", "a: {}\n  c: {}").replace("[a-b]", "[a-b, b-c]"))
    planned = made.apply(file, dry_run=True)
    assert not planned["done"] and made.nodes == ["a", "b"]
    assert made.apply(file)["done"] and made.nodes == ["a", "c", "b"]
    assert made.apply(file)["steps"] == []


def test_a_wrong_file_is_told_with_its_lines() -> None:
    with pytest.raises(UsageError) as caught:
        Lab.up(text="nodes: {a: {forwading: true}}\n", name="wrong")
    assert "forwading" in str(caught.value) and ":1:" in str(caught.value)


def test_a_lab_without_pytest(tmp_path: Path) -> None:
    name = f"alone-{tmp_path.name}-{sys.version_info[1]}"
    with Lab.up(text=PAIR, name=name) as made:
        assert made.name == name and Lab.running(name).nodes == ["a", "b"]
        events = made.events()
        assert next(events)["kind"] == "snapshot"
    # It ends with the lab, of whose end it may tell.
    assert all(event["kind"] == "change" for event in events)
    with pytest.raises(Error, match="does the lab run"):
        Lab.running(name)


def test_a_capture_that_failed_says_so_again_and_keeps_no_lab(tmp_path: Path) -> None:
    name = f"cut-{tmp_path.name}-{sys.version_info[1]}"
    with Lab.up(text=PAIR, name=name) as made:
        capture = made.capture(tmp_path / "x.pcapng")
        capture.kill()
        for _ in range(2):
            with pytest.raises(CommandError, match="ended with -9"):
                capture.stop()
    with pytest.raises(Error, match="does the lab run"):
        Lab.running(name)


def test_a_ctrl_c_while_programs_end_keeps_no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"cut-{tmp_path.name}-{sys.version_info[1]}"

    def interrupted(self: Process) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with Lab.up(text=PAIR, name=name) as made:
            process = made.node("a").start("sleep 1000")
            monkeypatch.setattr(Process, "stop", interrupted)
    monkeypatch.undo()
    process.stop()
    with pytest.raises(Error, match="does the lab run"):
        Lab.running(name)


def test_a_server_at_a_port(pair: Lab, tmp_path: Path) -> None:
    token = tmp_path / "token"
    command = pair.netloom.command(["serve", "--listen", "127.0.0.1:0", "--token-file", token], pair.name)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().split()[1].rstrip(";")
            assert Api.at(url, token.read_text().strip()).status()["name"] == pair.name
            with pytest.raises(Unauthorized) as caught:
                Api.at(url, "x" * 64).status()
            assert caught.value.code == "unauthorized"
        finally:
            server.terminate()


@pytest.mark.root
def test_live_traffic_is_measured(pair: Lab) -> None:
    with pair.node("a").start("ping -4 -i 0.05 b") as ping:
        ping.wait_for("bytes from", timeout=120)
        records = pair.measure("a", "b", "1s", "-4")
    ways = [one for one in records if one.get("from") == "a" and one.get("to") == "b"]
    assert ways, records
