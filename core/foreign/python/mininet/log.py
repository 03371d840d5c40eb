"""Messages by level, on standard error."""

import sys

LEVELS = {"debug": 10, "info": 20, "output": 25, "warning": 30, "warn": 30, "error": 40, "critical": 50}
_level = LEVELS["output"]


def setLogLevel(levelname=None):
    global _level
    _level = LEVELS.get(levelname or "output", LEVELS["output"])


def _say(level, words):
    if LEVELS[level] >= _level:
        stream = sys.stdout if level == "output" else sys.stderr
        stream.write(" ".join(str(word) for word in words))
        stream.flush()


def debug(*words):
    _say("debug", words)


def info(*words):
    _say("info", words)


def output(*words):
    _say("output", words)


def warn(*words):
    _say("warning", words)


warning = warn


def error(*words):
    _say("error", words)


class _Logger:
    debug = staticmethod(debug)
    info = staticmethod(info)
    output = staticmethod(output)
    warn = staticmethod(warn)
    warning = staticmethod(warn)
    error = staticmethod(error)
    setLogLevel = staticmethod(setLogLevel)

    def getEffectiveLevel(self):
        return _level


lg = _Logger()
