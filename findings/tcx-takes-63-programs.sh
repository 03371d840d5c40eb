#!/bin/sh
# An interface takes 63 programs by tcx at each hook, and the 64th is refused as a number out of range.
#
# Guess:   64 programs, the kernel's BPF_MPROG_MAX, as documents and headers say; one more is refused for want of room.
# Package: none, on Linux 6.18 (tcx came with 6.6).
# Happens: 63 links attach at ingress and 63 more at egress. The next is ERANGE ("Numerical result out of range"), although
#          no position was asked for: the last place of the kernel's array of 64 ends the list.
set -eu
[ "$(id -u)" = 0 ] || { echo "not runnable here: only root loads BPF programs"; exit 77; }
unshare --net true 2>/dev/null || { echo "not runnable here: no network namespace can be created"; exit 77; }
echo "kernel $(uname -r)"
unshare --net python3 - <<'PYTHON'
import ctypes, errno, os, platform, struct, sys

NUMBERS = {"x86_64": 321, "aarch64": 280}
if platform.machine() not in NUMBERS:
    print("not runnable here: the number of bpf(2) is not known here"); sys.exit(77)
libc = ctypes.CDLL(None, use_errno=True)

def bpf(command, attributes):
    data = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    done = libc.syscall(NUMBERS[platform.machine()], command, data, len(data))
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done

# r0 = -1 (the next program decides); exit
code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, -1, 0x95, 0, 0, 0))
licence = ctypes.create_string_buffer(b"GPL")

def load():
    # BPF_PROG_LOAD, of type BPF_PROG_TYPE_SCHED_CLS, two instructions
    return bpf(5, struct.pack("<IIQQ", 3, 2, ctypes.addressof(code), ctypes.addressof(licence)))

try:
    load()
except OSError as error:
    print("not runnable here: no BPF program can be loaded:", error); sys.exit(77)

def fill(hook):
    links = []
    while len(links) < 200:
        # One program has one place at a hook.
        program = load()
        try:
            # BPF_LINK_CREATE at the loopback interface
            links.append(bpf(28, struct.pack("<IIII", program, 1, hook, 0)))
        except OSError as error:
            return links, error
    return links, None

kept, seen = [], []
for name, hook in (("ingress", 46), ("egress", 47)):
    links, error = fill(hook)
    if not links:
        print("not runnable here: the kernel has no tcx:", error); sys.exit(77)
    kept.append(links)
    seen.append((len(links), error and error.errno))
    print(f"{name}: {len(links)} programs, then {error}")
if seen != [(63, errno.ERANGE)] * 2:
    print("changed: 63 and ERANGE were seen before"); sys.exit(1)
PYTHON
