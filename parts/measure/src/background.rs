//! Work on a separate thread while blocks are read; the outcome is fetched when ready.
//!
//! Loading a point's programs takes longer than a short block. An outcome that is no longer wanted is dropped
//! by the thread when ready. After a [`Background`] is dropped, the thread and everything it made are gone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use netloom_sys::Failure;

use crate::Result;
use crate::lock::lock;

/// The work's result, or a panic's payload.
pub(crate) type Outcome<T> = std::result::Result<T, Box<dyn Any + Send>>;

#[derive(Debug)]
enum Slot<T> {
    /// Not ready yet.
    Awaited,
    Ready(Outcome<T>),
    /// Taken, or no longer wanted.
    Closed,
}

/// Work in progress.
#[derive(Debug)]
pub(crate) struct Background<T> {
    slot: Arc<Mutex<Slot<T>>>,
    /// `None` while it is being joined.
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread for the work, in the namespaces of the calling thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn spawn(work: impl FnOnce() -> T + Send + 'static) -> Result<Background<T>> {
        let slot = Arc::new(Mutex::new(Slot::Awaited));
        let place = Arc::clone(&slot);
        let body = move || {
            // Dropped before the thread ran: what it would attach would only be detached.
            if !lock(&place).is_awaited() {
                return;
            }
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let mut slot = lock(&place);
            if slot.is_awaited() {
                *slot = Slot::Ready(outcome);
            } else {
                // Dropping an outcome detaches programs, which
                // takes long: not under the lock that `take` needs.
                drop(slot);
                drop(outcome);
            }
        };
        let thread = thread::Builder::new().name("netloom-attach".to_owned()).spawn(body);
        let failed = Failure::of("thread \"netloom-attach\"", "start");
        Ok(Background { slot, thread: Some(thread.map_err(failed)?) })
    }
}

impl<T> Background<T> {
    /// The outcome, once ready.
    pub(crate) fn take(&self) -> Option<Outcome<T>> {
        let mut slot = lock(&self.slot);
        if slot.is_awaited() { None } else { slot.close() }
    }

    /// The outcome if ready; a later one is dropped.
    pub(crate) fn forgo(&self) -> Option<Outcome<T>> {
        lock(&self.slot).close()
    }
}

impl<T> Slot<T> {
    fn is_awaited(&self) -> bool {
        matches!(self, Slot::Awaited)
    }

    fn close(&mut self) -> Option<Outcome<T>> {
        match std::mem::replace(self, Slot::Closed) {
            Slot::Ready(outcome) => Some(outcome),
            Slot::Awaited | Slot::Closed => None,
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        // What is ready is dropped here, not by the thread after the join.
        drop(self.forgo());
        // Panics of the work are caught; the panic hook reports any other.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{channel, sync_channel};

    use super::*;

    /// Waits for the thread and takes the outcome.
    fn taken<T: Send + 'static>(mut returning: Background<T>) -> Option<Outcome<T>> {
        returning.thread.take().unwrap().join().unwrap();
        let outcome = returning.take();
        assert!(returning.take().is_none() && returning.forgo().is_none());
        outcome
    }

    #[test]
    fn an_outcome_is_taken_once_it_is_there() {
        let (go, wait) = channel();
        let returning = Background::spawn(move || wait.recv().unwrap()).unwrap();
        assert!(returning.take().is_none());
        go.send(7).unwrap();
        assert_eq!(taken(returning).unwrap().unwrap(), 7);
    }

    #[test]
    fn a_panic_is_an_outcome() {
        let returning = Background::spawn(|| std::panic::resume_unwind(Box::new("so"))).unwrap();
        let outcome: Outcome<()> = taken(returning).unwrap();
        assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"so"));
    }

    #[test]
    fn what_nobody_wants_has_gone_when_the_work_was_dropped() {
        let made = Arc::new(());
        for late in [true, false] {
            let ((go, wait), (begun, begins)) = (channel::<()>(), sync_channel(1));
            let mine = Arc::clone(&made);
            let returning = Background::spawn(move || {
                begun.send(()).unwrap();
                wait.recv().unwrap();
                mine
            });
            let mut returning = returning.unwrap();
            begins.recv().unwrap();
            if late {
                assert!(returning.forgo().is_none());
                go.send(()).unwrap();
            } else {
                go.send(()).unwrap();
                returning.thread.take().unwrap().join().unwrap();
                assert_eq!(Arc::strong_count(&made), 2);
            }
            drop(returning);
            assert_eq!(Arc::strong_count(&made), 1, "late: {late}");
        }
    }
}
