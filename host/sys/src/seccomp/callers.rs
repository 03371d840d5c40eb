//! The last threads that made calls: to open one, and to ask for its program, takes as long as the rest of its call.
//! From its second call on, a thread's image is kept as well.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::caller::{Caller, Thread};
use super::image::Image;
use super::listener::{Call, Listener};
use super::sight::Sight;
use crate::Result;

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
    /// Cached facts may be of a thread that has ended, whose id is the caller's by now: then its descriptors are
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
    pub fn learn(&self, listener: &Listener, call: &Call, caller: &Caller, sight: &Sight) {
        let mut place = self.place(call.tid);
        let Some(known) = place.as_mut().filter(|known| known.tid == call.tid) else { return };
        let first = known.calls == 2 && known.thread.image.is_none();
        if !first && !caller.has_missed() {
            return;
        }
        // The opened files are the caller's only if its call still waits.
        let image = Image::of(call.tid, sight).filter(|_| listener.is_waiting(call.id));
        let pidfd = Arc::clone(&known.thread.pidfd);
        known.thread = Arc::new(Thread { pidfd, image });
    }

    /// Forgets a thread: before it gets other mounts, in which its program may have another name.
    pub fn forget(&self, tid: i32) {
        self.place(tid).take_if(|known| known.tid == tid);
    }
}
