"""`Api`: the calls of a lab, or of `netloom serve`, and its events as they come."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Optional

from .api import Calls
from .errors import ApiError, Unreachable
from .schemas import LabEvent
from .transport import HttpTransport

LONGEST_PAUSE = 1.0
"""Seconds between two tries to connect again."""


class Api(Calls):
    """Every call of the REST API. `Api.of("LAB")` asks a lab of this user, `Api.at(URL, TOKEN)` a server."""

    transport: HttpTransport

    @classmethod
    def of(cls, lab: str, runtime: Optional[str] = None) -> Api:
        """The API of a running lab of this user, by its name."""
        folder = runtime if runtime is not None else runtime_dir()
        return cls(HttpTransport(socket_path=os.path.join(folder, lab, "api.sock")))

    @classmethod
    def at(cls, url: str, token: str) -> Api:
        """The API at the URL that `netloom serve` prints, with its token."""
        return cls(HttpTransport(url=url, token=token))

    def stream_events(self, since: Optional[str] = None, *, reconnect_for: float = 10.0) -> Iterator[LabEvent]:
        """What happens in the lab: a snapshot, then what is different, until the lab is gone.

        A stream that breaks off is taken up behind its last event; the server says with `missed` where it no longer
        can. It ends when the lab's folder is gone, or when nothing has answered for `reconnect_for` seconds. `since` is
        the `id` of an event.
        """
        last, pause, silent, heard = since, 0.01, time.monotonic(), False
        while True:
            try:
                for told in self.transport.stream("/v1/events", last):
                    event: LabEvent = json.loads(told.data)
                    last = told.id or event["id"]
                    yield event
                    pause, silent, heard = 0.01, time.monotonic(), True
            except Unreachable:
                if not heard:
                    raise
            except ApiError as error:
                if error.status != 503:
                    raise
            if self.transport.is_gone() or time.monotonic() - silent >= reconnect_for:
                return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def runtime_dir() -> str:
    """The folder in which this user's labs have theirs, as `netloom` chooses it."""
    chosen = os.environ.get("NETLOOM_RUNTIME_DIR")
    if chosen:
        return os.path.abspath(chosen)
    user = os.geteuid()
    if user == 0:
        return "/run/netloom"
    session = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(session, "netloom") if session else f"/tmp/netloom-{user}"
