//! Whose turn it is to wait for calls: one thread's, since the kernel wakes all that wait for each call (Linux 6.6 and
//! later), and each of them takes the processor from the program.
//!
//! That thread answers quick calls by itself, and waits again: it needs no other for that. Before what may take long
//! it passes its turn on; where something takes long that seemed quick, the turn is taken from it. The state is one
//! word, of a count of calls and a phase, so that only the holder of the turn for this very call can keep it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Nobody waits for calls.
const FREE: u64 = 0;
/// A thread waits for a call.
const WAITS: u64 = 1;
/// That thread has received one.
const BUSY: u64 = 2;
const PHASE: u64 = 3;
const NEXT: u64 = 4;

/// Threads that wait for their turn; one more ends.
const SPARE: usize = 2;

/// The turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    word: AtomicU64,
    seats: Mutex<Seats>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct Seats {
    /// Threads that wait for their turn.
    taken: usize,
    ended: bool,
}

/// A call of a thread that had the turn when it received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Turn {
    /// Waits for the turn; false if this thread is not needed.
    pub(crate) fn wait(&self) -> bool {
        let mut seats = self.seats();
        if seats.taken >= SPARE && !self.is_free() {
            return false;
        }
        while !seats.ended {
            if self.take() {
                return true;
            }
            // `pass` notifies under this lock, after it has freed the word: no wake-up is lost in
            // between.
            seats.taken += 1;
            seats = self.free.wait(seats).unwrap_or_else(PoisonError::into_inner);
            seats.taken -= 1;
        }
        false
    }

    /// This thread, which has the turn, has received a call.
    pub(crate) fn received(&self) -> Ticket {
        // Relaxed: while a thread waits for a call nobody else changes the word, so this reads its
        // own write.
        let ticket = (self.word.load(Ordering::Relaxed) & !PHASE).wrapping_add(NEXT) | BUSY;
        self.word.store(ticket, Ordering::SeqCst);
        Ticket(ticket)
    }

    /// This thread has answered; whether it still has the turn.
    pub(crate) fn keep(&self, ticket: Ticket) -> bool {
        self.change(ticket, WAITS)
    }

    /// Passes the turn on, from the thread that has it for this call; whether nobody was there to take it.
    pub(crate) fn pass(&self, ticket: Ticket) -> bool {
        if !self.change(ticket, FREE) {
            return false;
        }
        let seats = self.seats();
        self.free.notify_one();
        seats.taken == 0
    }

    /// The call that the thread with the turn is busy with.
    pub(crate) fn busy(&self) -> Option<Ticket> {
        let word = self.word.load(Ordering::SeqCst);
        (word & PHASE == BUSY).then_some(Ticket(word))
    }

    /// Nobody gets the turn any more.
    pub(crate) fn end(&self) {
        self.seats().ended = true;
        self.free.notify_all();
    }

    fn is_free(&self) -> bool {
        self.word.load(Ordering::SeqCst) & PHASE == FREE
    }

    fn take(&self) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        word & PHASE == FREE && self.change(Ticket(word), WAITS)
    }

    fn change(&self, from: Ticket, phase: u64) -> bool {
        // The count in the word tells calls apart: a ticket of an earlier call changes nothing
        // (ABA).
        let to = (from.0 & !PHASE) | phase;
        self.word.compare_exchange(from.0, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_has_the_turn_and_keeps_it_while_it_is_quick() {
        let turn = Turn::default();
        assert!(turn.wait() && !turn.is_free());
        let first = turn.received();
        assert_eq!(turn.busy(), Some(first));
        assert!(turn.keep(first) && turn.busy().is_none());
        assert!(!turn.keep(first), "of an earlier call");
    }

    #[test]
    fn a_turn_that_was_taken_away_is_neither_kept_nor_passed_again() {
        let turn = Turn::default();
        assert!(turn.wait());
        let slow = turn.received();
        assert!(turn.pass(slow), "nobody waits");
        assert!(turn.wait(), "it is free");
        let next = turn.received();
        assert!(!turn.keep(slow) && !turn.pass(slow));
        assert!(turn.keep(next));
    }

    #[test]
    fn who_waits_gets_the_turn_that_is_passed_on() {
        let turn = Turn::default();
        assert!(turn.wait());
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..SPARE).map(|_| scope.spawn(|| turn.wait())).collect();
            let seated = || (turn.seats().taken == SPARE).then_some(());
            netloom_kit::wait_until("both wait", std::time::Duration::from_secs(30), seated);
            assert!(!turn.wait(), "a third is not needed");
            assert!(!turn.pass(turn.received()), "one waits");
            let has_turn = || (turn.word.load(Ordering::SeqCst) & PHASE == WAITS).then_some(());
            netloom_kit::wait_until("it has it", std::time::Duration::from_secs(30), has_turn);
            turn.end();
            let got = others.into_iter().map(|other| other.join().unwrap());
            assert_eq!(got.filter(|got| *got).count(), 1);
            assert!(!turn.wait(), "it has ended");
        });
    }
}
