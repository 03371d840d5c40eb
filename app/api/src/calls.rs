//! Calls to the service, which may block: each on a thread, within a share of all threads for its kind.
//!
//! So calls that take long leave threads for quick ones, and both for looks of requests that wait; taking the lab down needs
//! no share. A request that waits for its turn gives way like one that waits for something to happen.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use crate::connections::Held;
use crate::reply::Rejection;

/// Calls of each kind at a time; more wait.
const MOST_LONG: usize = 64;
const MOST_QUICK: usize = 48;
const MOST_LOOKS: usize = 8;

/// Threads: for all of these, and for taking the lab down.
pub(crate) const MOST_THREADS: usize = MOST_LONG + MOST_QUICK + MOST_LOOKS + 8;

/// The pause between two looks of a request that waits, and what each other one adds to it.
const LOOK: Duration = Duration::from_millis(40);
const LOOK_EACH: Duration = Duration::from_millis(1);

/// The shares of a server.
#[derive(Debug)]
pub(crate) struct Calls {
    long: Arc<Semaphore>,
    quick: Arc<Semaphore>,
    looks: Arc<Semaphore>,
}

impl Default for Calls {
    fn default() -> Calls {
        let share = |most| Arc::new(Semaphore::new(most));
        Calls { long: share(MOST_LONG), quick: share(MOST_QUICK), looks: share(MOST_LOOKS) }
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It may take as long as it takes.
    Long,
    /// It should be done soon.
    Quick,
    /// It looks whether something has happened.
    Look,
    /// It takes the lab down.
    Last,
}

impl Calls {
    /// Runs a call when it is its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        held: &Held,
        work: impl FnOnce() -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Rejection> {
        let turn = match kind {
            Kind::Long => Some(turn(&self.long, held).await?),
            Kind::Quick => Some(turn(&self.quick, held).await?),
            Kind::Look => Some(turn(&self.looks, held).await?),
            Kind::Last => None,
        };
        let run = move || {
            // The thread is in use until the call ends, though nobody may wait for that any more.
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(run).await.unwrap_or_else(|_| Err(Rejection::panicked()))
    }
}

async fn turn(share: &Arc<Semaphore>, held: &Held) -> Result<OwnedSemaphorePermit, Rejection> {
    match held.wait(Arc::clone(share).acquire_owned()).await {
        Some(Ok(permit)) => Ok(permit),
        // The semaphore is never closed.
        Some(Err(_)) | None => {
            let words = "lab: too many calls wait for their turn; ask again later";
            Err(Rejection::new(StatusCode::SERVICE_UNAVAILABLE, words))
        }
    }
}

/// The looks of a request that waits for something: some time apart, until the time is over, the server ends, or the
/// connection has to give way to another.
pub(crate) struct Looks<'a> {
    end: Instant,
    held: &'a Held,
    stopping: watch::Receiver<bool>,
    last: bool,
}

impl<'a> Looks<'a> {
    pub(crate) fn new(end: Instant, held: &'a Held, stopping: &watch::Receiver<bool>) -> Looks<'a> {
        Looks { end, held, stopping: stopping.clone(), last: Instant::now() >= end }
    }

    /// Whether the next look is the last one.
    pub(crate) fn are_over(&self) -> bool {
        self.last
    }

    /// Waits for the next look.
    pub(crate) async fn pause(&mut self) {
        let others = u32::try_from(self.held.others_waiting()).unwrap_or(u32::MAX);
        // Many requests that wait look less often, so that their looks leave the lab time for
        // calls.
        let pause = LOOK.max(LOOK_EACH.saturating_mul(others));
        let next = self.end.min(Instant::now() + pause);
        let stopping = &mut self.stopping;
        let stopped = async {
            tokio::select! {
                () = sleep_until(next) => false,
                _ = stopping.wait_for(|s| *s) => true,
            }
        };
        // One look more in any case: what happened during the pause is answered.
        self.last = self.held.wait(stopped).await.unwrap_or(true) || Instant::now() >= self.end;
    }
}
