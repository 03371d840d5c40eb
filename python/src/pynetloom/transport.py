"""HTTP to a lab: over its UNIX socket, or over TCP with a token. No call keeps a connection.

Answers that are errors become exceptions here and nowhere else. Specifications: RFC 9457 (problems), and section 9.2 of
HTML (server-sent events).
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, Protocol
from urllib.parse import urlencode, urlsplit

from .errors import ApiError, Conflict, Error, NotFound, Unauthorized, Unreachable

LONGEST_SOCKET_PATH = 107
"""Bytes of a path in an address of a UNIX socket (unix(7))."""

PATIENCE = 120.0
"""How long a server may be silent, in seconds, beside the time that a call asks it to wait."""


class Transport(Protocol):
    """What sends calls."""

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, object]] = None,
        body: object = None,
    ) -> Any:
        """Sends a request and gives the JSON of its answer, or the text of one that is text."""

    def stream(self, path: str, last: Optional[str]) -> Iterator[ServerEvent]:
        """Follows server-sent events until the server ends them; `last` is the id to go on behind."""


class ServerEvent(NamedTuple):
    """An event of a stream."""

    id: Optional[str]
    kind: str
    data: str


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket, whose path may be longer than an address holds."""

    def __init__(self, path: str, timeout: Optional[float]) -> None:
        super().__init__("lab", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            if len(os.fsencode(self.path)) <= LONGEST_SOCKET_PATH:
                self.sock.connect(self.path)
            else:
                self._connect_by_folder(self.sock)
        except BaseException:
            self.sock.close()
            raise

    def _connect_by_folder(self, sock: socket.socket) -> None:
        folder, name = os.path.split(self.path)
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sock.connect(f"/proc/self/fd/{opened}/{name}")
        finally:
            os.close(opened)


class HttpTransport:
    """A lab's socket, or a server's URL with its token."""

    def __init__(
        self,
        *,
        socket_path: Optional[str] = None,
        url: Optional[str] = None,
        token: Optional[str] = None,
        patience: float = PATIENCE,
    ) -> None:
        if (socket_path is None) == (url is None):
            raise ValueError("give the path of a socket or a URL, one of them")
        self.where = socket_path or url or ""
        self.patience = patience
        self._socket_path = socket_path
        self._host, self._port = _place(url) if url is not None else ("", 0)
        self._headers = {"Authorization": f"Bearer {token}"} if token is not None else {}

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, object]] = None,
        body: object = None,
    ) -> Any:
        __tracebackhide__ = True
        waits = (query or {}).get("wait_ms")
        more = waits / 1000 if isinstance(waits, int) else 0.0
        connection, answer = self._ask(method, path, query, body, self.patience + more, {})
        with connection:
            text = self._whole(answer)
            if answer.status >= 400:
                raise _problem(answer, text)
            if (answer.getheader("Content-Type") or "").startswith("text/plain"):
                return text.decode()
            return json.loads(text) if text else None

    def stream(self, path: str, last: Optional[str]) -> Iterator[ServerEvent]:
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        connection, answer = self._ask("GET", path, None, None, self.patience, headers)
        with connection:
            if answer.status >= 400:
                raise _problem(answer, self._whole(answer))
            try:
                yield from events_of(answer)
            except (OSError, http.client.HTTPException):
                # The server went, or said nothing for too long: the caller asks again and hears why.
                return

    def is_gone(self) -> bool:
        """Whether the folder of the lab is not there any more; never known of a server at a URL."""
        return self._socket_path is not None and not os.path.isdir(os.path.dirname(self._socket_path))

    def _ask(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, object]],
        body: object,
        timeout: float,
        headers: dict[str, str],
    ) -> tuple[_Closing, http.client.HTTPResponse]:
        given = {key: _text(value) for key, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        headers = {**self._headers, **headers}
        sent = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            sent = json.dumps(body).encode()
        connection = self._connection(timeout)
        try:
            connection.request(method, target, body=sent, headers=headers)
            return _Closing(connection), connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"{self.where}: {method} {path}: {_reason(error)}") from error
        except BaseException:
            connection.close()
            raise

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._socket_path is not None:
            return _UnixConnection(self._socket_path, timeout)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def _whole(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self.where}: the answer was cut off: {_reason(error)}") from error


class _Closing:
    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def events_of(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Events of a stream by its lines; one that has no end is not told."""
    last: Optional[str] = None
    kind = ""
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield ServerEvent(last, kind or "message", "\n".join(data))
            kind, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "id" and "\0" not in value:
            last = value
        elif field == "event":
            kind = value
        elif field == "data":
            data.append(value)


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Error(f"{url!r} is not the address of a server; write http://127.0.0.1:8474")
    return parts.hostname, parts.port or 80


def _text(value: object) -> str:
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _reason(error: BaseException) -> str:
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        return "no lab process listens; does the lab run?"
    return str(error) or type(error).__name__


def _problem(answer: http.client.HTTPResponse, text: bytes) -> ApiError:
    """The exception of an answer, also of one that is not as the API's are."""
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {"detail": text.decode("utf-8", "replace").strip()}
    subject = told.get("object")
    wrong = [(str(one.get("path")), str(one.get("message"))) for one in told.get("problems") or []]
    kinds = {401: Unauthorized, 404: NotFound, 409: Conflict}
    return kinds.get(answer.status, ApiError)(
        answer.status,
        str(told.get("title", answer.reason)),
        str(told.get("code", "unknown")),
        str(told.get("detail") or answer.reason),
        (str(subject.get("kind")), str(subject.get("name"))) if isinstance(subject, dict) else None,
        wrong,
    )
