"""Errors, events and sockets with a server that answers what the test says."""

import contextlib
import http.server
import json
import os
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from pynetloom import Api, ApiError, Conflict, NotFound, Unauthorized, Unreachable
from pynetloom.transport import HttpTransport, events_of

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the server's function; keeps what was asked."""

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.asked.append((self.command, self.path, body, dict(self.headers)))  # type: ignore[attr-defined]
        self.server.how(self)  # type: ignore[attr-defined]

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def address_string(self) -> str:
        return "peer"

    def log_message(self, format: str, *args: Any) -> None:
        pass


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class TcpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True


@contextlib.contextmanager
def serving(server: Any, how: Answer) -> Iterator[list[Any]]:
    server.how, server.asked = how, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def replying(status: int, told: object, kind: str = "application/json") -> Answer:
    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        text = told if isinstance(told, bytes) else json.dumps(told).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return reply


@contextlib.contextmanager
def unix(folder: Path, how: Answer) -> Iterator[Any]:
    path = str(folder / "s")
    with serving(UnixServer(path, Handler), how) as asked:
        yield Api(HttpTransport(socket_path=path)), asked


def test_names_are_escaped_and_values_written(tmp_path: Path) -> None:
    with unix(tmp_path, replying(200, {"name": "x", "notes": []})) as (api, asked):
        api.delete_node("p/c 1", force=True)
        api.set_link("a:eth0--b:eth0", {"settings": [["delay", "1ms"]]})
        api.log("h1", after=None, tail=3)
    assert [(verb, path, body) for verb, path, body, _ in asked] == [
        ("DELETE", "/v1/nodes/p%2Fc%201?force=true", None),
        ("PATCH", "/v1/links/a%3Aeth0--b%3Aeth0", {"settings": [["delay", "1ms"]]}),
        ("GET", "/v1/nodes/h1/log?tail=3", None),
    ]


@pytest.mark.parametrize("status,kind", [(404, NotFound), (409, Conflict), (401, Unauthorized), (400, ApiError)])
def test_a_problem_is_an_exception(tmp_path: Path, status: int, kind: type) -> None:
    problem = {
        "title": "T",
        "status": status,
        "code": "no_such_node",
        "detail": 'node "h9": there is none',
        "object": {"kind": "node", "name": "h9"},
        "problems": [{"path": "mpc", "message": "is missing"}],
    }
    with unix(tmp_path, replying(status, problem, "application/problem+json")) as (api, _):
        with pytest.raises(ApiError) as caught:
            api.node("h9")
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.object) == (status, "no_such_node", ("node", "h9"))
    assert str(error) == 'node "h9": there is none\nmpc is missing (no_such_node)'


def test_an_error_that_is_no_problem_is_told_as_well(tmp_path: Path) -> None:
    with unix(tmp_path, replying(502, b"<html>bad gateway", "text/html")) as (api, _):
        with pytest.raises(ApiError, match="bad gateway"):
            api.status()


def test_a_socket_of_nobody(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="does the lab run"):
        Api(HttpTransport(socket_path=str(tmp_path / "none"))).status()


def test_an_answer_that_is_cut_off(tmp_path: Path) -> None:
    def short(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{")

    with unix(tmp_path, short) as (api, _):
        with pytest.raises(Unreachable, match="cut off"):
            api.status()


def test_a_path_that_is_longer_than_an_address(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    before = os.getcwd()
    os.chdir(folder)
    try:
        server = UnixServer("s", Handler)
    finally:
        os.chdir(before)
    with serving(server, replying(200, [])):
        assert Api(HttpTransport(socket_path=str(folder / "s"))).nodes() == []


def test_a_server_at_a_port_gets_the_token() -> None:
    server = TcpServer(("127.0.0.1", 0), Handler)
    with serving(server, replying(200, [])) as asked:
        assert Api.at(f"http://127.0.0.1:{server.server_address[1]}/v1/lab", "secret").nodes() == []
    assert asked[0][3]["Authorization"] == "Bearer secret"


def test_events_are_read_by_the_specification() -> None:
    lines = [b"id: 1.1\n", b"event: change\n", b"data: a\n", b"data:b\n", b"\n", b":\n", b"\n", b"data: cut"]
    assert [tuple(event) for event in events_of(lines)] == [("1.1", "change", "a\nb")]


def test_a_stream_that_breaks_goes_on_behind_its_last_event(tmp_path: Path) -> None:
    told = [[("1.1", "snapshot"), ("1.2", "change")], [("1.3", "change")]]

    def stream(handler: http.server.BaseHTTPRequestHandler) -> None:
        if not told:
            replying(404, {"code": "no_such_lab", "detail": "gone"})(handler)
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for id, kind in told.pop(0):
            event = json.dumps({"id": id, "kind": kind, "time_ns": "0"})
            handler.wfile.write(f"id: {id}\nevent: {kind}\ndata: {event}\n\n".encode())

    with unix(tmp_path, stream) as (api, asked):
        events = api.stream_events()
        assert [next(events)["id"] for _ in range(3)] == ["1.1", "1.2", "1.3"]
        with pytest.raises(NotFound):
            next(events)
    assert [headers.get("Last-Event-ID") for *_, headers in asked] == [None, "1.2", "1.3"]


def test_a_stream_of_nobody_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        next(Api(HttpTransport(socket_path=str(tmp_path / "none"))).stream_events())
