"""Sets the offset of TAI from UTC to so many seconds (adjtimex, ADJ_TAI) and prints when, before and
after, in nanoseconds of the monotonic clock."""

import ctypes
import os
import struct
import sys
import time

ADJ_TAI = 0x80
# Places in struct timex where long has eight bytes.
MODES, CONSTANT = 0, 48

libc = ctypes.CDLL(None, use_errno=True)


def adjtimex(fields):
    room = ctypes.create_string_buffer(208)
    for at, form, value in fields:
        struct.pack_into(form, room, at, value)
    if libc.adjtimex(room) < 0:
        sys.exit("adjtimex: " + os.strerror(ctypes.get_errno()))
    return room


adjtimex([])
before = time.monotonic_ns()
adjtimex([(MODES, "I", ADJ_TAI), (CONSTANT, "q", int(sys.argv[1]))])
print(before, time.monotonic_ns())
