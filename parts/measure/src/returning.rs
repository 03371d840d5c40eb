//! Work that a thread of its own does while blocks are read, and whose outcome is taken when it is there.
//!
//! Loading a point's programs takes longer than short blocks last. An outcome that nobody wants any more
//! is dropped by the thread as soon as it is there; when a [`Returning`] has been dropped the thread has
//! ended, and with it all that it made.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::lock::lock;
use crate::{Error, Result};

/// What the work came to; a panic's payload if it panicked.
pub(crate) type Outcome<T> = std::result::Result<T, Box<dyn Any + Send>>;

#[derive(Debug)]
enum Slot<T> {
    /// It is not there yet.
    Awaited,
    Ready(Outcome<T>),
    /// It was taken, or is not wanted any more.
    Closed,
}

/// The work.
#[derive(Debug)]
pub(crate) struct Returning<T> {
    slot: Arc<Mutex<Slot<T>>>,
    /// Nothing once it is waited for.
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Returning<T> {
    /// Starts a thread that works, in the namespaces of the calling one.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn spawn(work: impl FnOnce() -> T + Send + 'static) -> Result<Returning<T>> {
        let slot = Arc::new(Mutex::new(Slot::Awaited));
        let place = Arc::clone(&slot);
        let body = move || {
            if !lock(&place).is_awaited() {
                return;
            }
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let mut slot = lock(&place);
            if slot.is_awaited() {
                *slot = Slot::Ready(outcome);
            } else {
                drop(slot);
                drop(outcome);
            }
        };
        let thread = thread::Builder::new().name("netloom-attach".to_owned()).spawn(body);
        let object = "thread \"netloom-attach\"".to_owned();
        let failed = |source| Error::Call { object, operation: "start", source };
        Ok(Returning { slot, thread: Some(thread.map_err(failed)?) })
    }
}

impl<T> Returning<T> {
    /// The outcome, once it is there.
    pub(crate) fn take(&self) -> Option<Outcome<T>> {
        let mut slot = lock(&self.slot);
        if slot.is_awaited() { None } else { slot.close() }
    }

    /// The outcome if it is there; one that comes later is not wanted.
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

impl<T> Drop for Returning<T> {
    fn drop(&mut self) {
        drop(self.forgo());
        // Panics of the work are caught; of another the hook has told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{channel, sync_channel};

    use super::*;

    /// Waits for the thread, and takes the outcome.
    fn taken<T: Send + 'static>(mut returning: Returning<T>) -> Option<Outcome<T>> {
        returning.thread.take().unwrap().join().unwrap();
        let outcome = returning.take();
        assert!(returning.take().is_none() && returning.forgo().is_none());
        outcome
    }

    #[test]
    fn an_outcome_is_taken_once_it_is_there() {
        let (go, wait) = channel();
        let returning = Returning::spawn(move || wait.recv().unwrap()).unwrap();
        assert!(returning.take().is_none());
        go.send(7).unwrap();
        assert_eq!(taken(returning).unwrap().unwrap(), 7);
    }

    #[test]
    fn a_panic_is_an_outcome() {
        let returning = Returning::spawn(|| std::panic::resume_unwind(Box::new("so"))).unwrap();
        let outcome: Outcome<()> = taken(returning).unwrap();
        assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"so"));
    }

    #[test]
    fn what_nobody_wants_has_gone_when_the_work_was_dropped() {
        let made = Arc::new(());
        for late in [true, false] {
            let ((go, wait), (begun, begins)) = (channel::<()>(), sync_channel(1));
            let mine = Arc::clone(&made);
            let returning = Returning::spawn(move || {
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
