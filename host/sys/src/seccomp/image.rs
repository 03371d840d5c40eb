//! A thread's memory, with the name of the program that it is of.
//!
//! exec(2) replaces the memory: the old one can then be read no more, and the name is asked for again. Memory that is
//! shared with the thread that made this one (vfork(2)) outlives exec, so that nothing is kept of such threads. Without
//! `PR_SET_MM`, which filters must refuse, and as long as the thread keeps its mounts, nothing else changes the name.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use super::sight::Sight;

/// kcmp(2): compares memories (linux/kcmp.h).
const KCMP_VM: libc::c_int = 1;

/// A thread's memory, and the program that it is of.
#[derive(Debug)]
pub(super) struct Image {
    memory: File,
    pub(super) program: String,
}

impl Image {
    /// Of a thread whose call waits.
    pub(super) fn of(tid: i32, sight: &Sight) -> Option<Image> {
        let memory = File::open(format!("/proc/{tid}/mem")).ok()?;
        (!shares_memory(tid)).then(|| Image { memory, program: sight.program(tid) })
    }

    /// Whether all of `buffer` was read; if not, the memory may be another one by now.
    pub(super) fn read(&self, address: u64, buffer: &mut [MaybeUninit<u8>]) -> bool {
        let Ok(at) = libc::off_t::try_from(address) else { return false };
        let into = buffer.as_mut_ptr().cast();
        // SAFETY: the kernel writes at most as many bytes to `buffer` as it has.
        let got = unsafe { libc::pread(self.memory.as_raw_fd(), into, buffer.len(), at) };
        usize::try_from(got).is_ok_and(|got| got == buffer.len() && got > 0)
    }
}

/// Whether a thread shares its memory with its parent. If that cannot be told, it does.
fn shares_memory(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
    let Some(parent) = parent.and_then(|word| word.parse::<i32>().ok()) else { return true };
    // SAFETY: compares two tasks by number, and touches no memory.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, tid, parent, KCMP_VM, 0, 0) };
    order <= 0
}
