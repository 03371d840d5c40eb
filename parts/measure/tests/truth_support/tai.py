"""Sets the offset of TAI from UTC to a number of seconds (adjtimex, ADJ_TAI) and prints when, before and
after, in nanoseconds of the monotonic clock."""

import ctypes
import os
import struct
import sys
import time

ADJ_TAI = 0x80
# Places in struct timex where long has eight bytes.
MODES, CONSTANT = 0, 48

room = ctypes.create_string_buffer(208)
struct.pack_into("I", room, MODES, ADJ_TAI)
struct.pack_into("q", room, CONSTANT, int(sys.argv[1]))
libc = ctypes.CDLL(None, use_errno=True)
before = time.monotonic_ns()
if libc.adjtimex(room) < 0:
    sys.exit("adjtimex: " + os.strerror(ctypes.get_errno()))
print(before, time.monotonic_ns())
