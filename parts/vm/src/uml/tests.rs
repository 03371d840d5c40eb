//! The preloaded library against the running kernel, which takes no shorter state on any processor; and boots.

use netloom_kit::needs;

use super::*;

/// Traces a child, and writes a part of its extended state: what the host says, and what the state is then.
const TRACER: &str = r"
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
def ptrace(request, pid, address, data=None):
    ctypes.set_errno(77)
    done = libc.ptrace(ctypes.c_int(request), ctypes.c_int(pid), ctypes.c_void_p(address), data)
    return done, ctypes.get_errno()
def state(pid):
    room = ctypes.create_string_buffer(1 << 16)
    vector = Vector(ctypes.addressof(room), len(room))
    assert ptrace(0x4204, pid, 0x202, ctypes.byref(vector))[0] == 0
    return room.raw[:vector.length]
word = (ctypes.c_ulonglong * 1)(2 ** 64 - 1)
child = os.fork()
if child == 0:
    libc.ptrace(ctypes.c_int(0), 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(child, 0)
before = state(child)
# The legacy area and the header: xmm1 is at 176, the components in use are told at 512 (SSE is bit 1).
part = ctypes.create_string_buffer(before[:576], 576)
part[176:180] = b'\xde\xad\xbe\xef'
part[512] = before[512] | 3
print(*ptrace(0x4205, child, 0x202, ctypes.byref(Vector(ctypes.addressof(part), 576))))
after = state(child)
print(after[176:180].hex(), after[576:] == before[576:], len(after) == len(before))
# A word that is -1, one that is not there, and text that is not a state.
print(*ptrace(2, child, ctypes.addressof(word)))
print(*ptrace(2, child, 0), *ptrace(0x4205, child, 0x999, ctypes.byref(Vector(0, 0))))
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
";

fn trace(preload: Option<&Path>) -> String {
    let mut python = Command::new("python3");
    python.args(["-c", TRACER]).envs(preload.map(|library| (PRELOAD, library)));
    let done = python.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_shorter_state_is_laid_over_the_whole_one() {
    needs!("python3");
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = place(folder.path()).unwrap() else { return };
    // Without it the host refuses: EFAULT, and nothing has changed.
    let alone: Vec<String> = trace(None).lines().map(str::to_owned).collect();
    assert_eq!(alone[0], "-1 14");
    assert!(!alone[1].starts_with("deadbeef"), "{alone:?}");
    let with: Vec<String> = trace(Some(&library)).lines().map(str::to_owned).collect();
    assert_eq!(with[..2], ["0 77", "deadbeef True True"]);
    // All else is as without it, errno included.
    assert_eq!(with[2..], alone[2..]);
    assert_eq!(alone[2..], ["-1 0", "-1 5 -1 22"], "the word; EIO, EINVAL");
}

#[test]
fn a_guest_boots_with_what_is_preloaded() {
    needs!("linux.uml");
    let found = boots().unwrap();
    assert!(found.ends_with("/linux.uml"), "{found}");
}

#[test]
fn a_folder_is_its_own_and_goes() {
    let [one, other] = [Folder::new().unwrap(), Folder::new().unwrap()];
    let (kept, path) = (other.0.clone(), one.0.clone());
    fs::write(path.join("file"), "").unwrap();
    drop(one);
    assert!(!path.exists() && kept.exists() && path != kept);
}

/// A program of the shell's.
fn script(program: &Path, words: &str) {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::remove_file(program);
    fs::write(program, format!("#!/bin/sh\n{words}\n")).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_does_not_boot_is_told() {
    // A program that says what such a kernel says on a processor with AMX, and one that says nothing.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kernel");
    let says = |words: &str| {
        script(&program, words);
        booted(&program, Duration::from_secs(60)).unwrap_err()
    };
    let told =
        says("echo 'ptrace set fp regs failed, errno = 14'; echo 'Kernel panic - not syncing'");
    assert_eq!(told, "its guest did not boot: ptrace set fp regs failed, errno = 14");
    assert_eq!(says("exit 3"), "its guest said nothing and ended: exit status: 3");
}

#[test]
fn one_that_hangs_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kernel");
    script(&program, "echo hangs; exec sleep 1000");
    // On a busy machine a shell may not have begun when a short time is over.
    let mut told = String::new();
    for milliseconds in [300, 3_000, 30_000] {
        told = booted(&program, Duration::from_millis(milliseconds)).unwrap_err();
        if told.ends_with("hangs") {
            break;
        }
    }
    assert_eq!(told, "its guest did not boot: hangs");
}
