"""Signals that end a script which runs: its network goes before it does."""

import contextlib
import signal

_ENDING = [getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM") if hasattr(signal, name)]

_waits = 0
_came = None


def _raise(number):
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _end(number, _frame):
    global _came
    if _waits:
        _came = number
    else:
        _raise(number)


def heed():
    """Lets them end the script as an exception does, so that what follows takes the network down."""
    for number in _ENDING:
        # Who started the script may have it ignore them.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


@contextlib.contextmanager
def later():
    """Has those that come meanwhile end the script afterwards: nothing is left half made."""
    global _came, _waits
    _waits += 1
    try:
        yield
    finally:
        _waits -= 1
        number, _came = (None, _came) if _waits else (_came, None)
    if number is not None:
        _raise(number)
