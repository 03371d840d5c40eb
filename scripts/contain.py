#!/usr/bin/env python3
"""Runs a command and ends, with it, all processes that came of it: contain.py PARENT COMMAND...

It does so when the command ends, when it is told to (SIGTERM, SIGINT, SIGHUP), and when its parent dies, which must be
the process PARENT (0: any). A process that has left its session and its parent does not escape: as the nearest
subreaper (prctl(2)), this one becomes its parent. A PID namespace would do as much, but hides the kernel's threads, which tests
move between cgroups.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

TOLD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
# What the shell's jobs and Python ignore, the command does not.
DEFAULT = [signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ]


def prctl(option, value):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        sys.exit(f'contain: prctl({option}, {value}): {os.strerror(ctypes.get_errno())}')


def descendants():
    """All processes that came of this one."""
    children = {}
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat', 'rb') as stat:
                # The name, in parentheses, may have any bytes.
                parent = int(stat.read().rpartition(b')')[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found, look = [], [os.getpid()]
    while look:
        more = children.get(look.pop(), [])
        found += more
        look += more
    return found


def reap():
    """Exit codes of all children that have ended, and whether others are left."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        code = os.waitstatus_to_exitcode(status)
        ended[pid] = 128 - code if code < 0 else code


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_all():
    """Kills until nobody is left, but for other users' that this one may not kill."""
    while True:
        killed = [kill(pid) for pid in descendants()]
        ended, left = reap()
        if not left or not (any(killed) or ended):
            return
        time.sleep(0.005)


def main():
    parent, command = int(sys.argv[1]), sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_BLOCK, TOLD | {signal.SIGCHLD})
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent not in (0, os.getppid()):
        sys.exit('contain: the parent has ended')
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.posix_spawnp(command[0], command, os.environ, setsigmask=[], setsigdef=DEFAULT)
    code = None
    while code is None:
        got = signal.sigwait(TOLD | {signal.SIGCHLD})
        if got == signal.SIGCHLD:
            code = reap()[0].get(child)
        else:
            code = 128 + got
    end_all()
    sys.exit(code)


main()
