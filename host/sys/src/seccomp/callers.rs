//! The last threads that made calls: to open one, and to ask for its program, takes as long as the rest of its call.
//!
//! A program's name is kept with its memory, which exec(2) replaces: the old memory can then be read no more, and the
//! name is asked for again. Memory that is shared with the thread that made this one (vfork(2)) outlives exec, so that
//! nothing is kept of such threads. Without `PR_SET_MM`, which filters must refuse, nothing else changes the name.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::caller::{Caller, Thread, program_of};
use super::listener::{Call, Listener};
use crate::Result;

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
    fn of(tid: i32) -> Option<Image> {
        let memory = File::open(format!("/proc/{tid}/mem")).ok()?;
        (!shares_memory(tid)).then(|| Image { memory, program: program_of(tid) })
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

/// A thread, and how many calls it has made since it was opened.
#[derive(Debug)]
struct Known {
    tid: i32,
    thread: Arc<Thread>,
    calls: u64,
}

/// Threads by the last digits of their ids.
#[derive(Debug)]
pub struct Callers([Mutex<Option<Known>>; Callers::PLACES]);

impl Default for Callers {
    fn default() -> Self {
        Callers(std::array::from_fn(|_| Mutex::new(None)))
    }
}

impl Callers {
    const PLACES: usize = 64;

    fn place(&self, tid: i32) -> MutexGuard<'_, Option<Known>> {
        let at = usize::try_from(tid).unwrap_or(0) % Self::PLACES;
        self.0[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread of `call`; `None` if the call has vanished.
    ///
    /// What is known may be of a thread that has ended, whose id is the caller's by now: then its descriptors are
    /// refused with ESRCH, and [`Callers::forget`] helps.
    ///
    /// # Errors
    /// As [`Caller::of`].
    pub fn of(&self, listener: &Listener, call: &Call) -> Result<Option<Caller>> {
        let mut place = self.place(call.tid);
        if let Some(known) = place.as_mut().filter(|known| known.tid == call.tid) {
            known.calls += 1;
            return Ok(Some(Caller::new(call.tid, Arc::clone(&known.thread))));
        }
        let caller = Caller::of(listener, call)?;
        let thread = caller.as_ref().map(|caller| Arc::clone(caller.thread()));
        *place = thread.map(|thread| Known { tid: call.tid, thread, calls: 1 });
        Ok(caller)
    }

    /// Keeps the image of a thread whose second call waits, or that has another one than is known: it may call again.
    pub fn learn(&self, listener: &Listener, call: &Call, caller: &Caller) {
        let mut place = self.place(call.tid);
        let Some(known) = place.as_mut().filter(|known| known.tid == call.tid) else { return };
        let first = known.calls == 2 && known.thread.image.is_none();
        if !first && !caller.has_missed() {
            return;
        }
        // What was opened is the caller's only if its call still waits.
        let image = Image::of(call.tid).filter(|_| listener.is_waiting(call.id));
        let pidfd = Arc::clone(&known.thread.pidfd);
        known.thread = Arc::new(Thread { pidfd, image });
    }

    /// Forgets a thread.
    pub fn forget(&self, tid: i32) {
        self.place(tid).take_if(|known| known.tid == tid);
    }
}
