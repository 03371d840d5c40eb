//! Whether controllers answer packet-ins, and what these may cost.
//!
//! A packet for a controller costs this process and the controller tens of microseconds, so a sender of packets that no
//! controller cares for could have most of a CPU for little, which programs of other networks then lack. While most packets
//! get no answer (a packet-out, a change of entries, groups or meters) and programs wait for the CPUs, frames that the
//! tables have to decide about are taken a fifth of the time. The others wait, and are dropped where their queues are
//! full. Controllers that only listen, on a machine with CPUs to spare, hear everything.

use netloom_pipeline::Time;

/// How long packets and answers are counted before they are compared.
const WINDOW: Time = 20_000_000;
/// Packets for controllers in a window from which on they are many: 2,000 a second.
const MANY: u64 = 40;
/// After this long, frames are taken freely for a window, to see how it stands.
const HELD: Time = 1_000_000_000;
/// How much longer than a turn the pause after it is, and the longest pause.
const SHARE: Time = 4;
const LONGEST: Time = 20_000_000;

/// Nanoseconds for which a thread has run, and for which it has waited for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) ran: u64,
    pub(crate) waited: u64,
}

/// Packets and answers.
#[derive(Debug, Default)]
pub(crate) struct Unwanted {
    /// When the window began, and what this thread had spent then.
    begun: Time,
    spent: Option<Spent>,
    told: u64,
    answers: u64,
    /// Since when frames are held back.
    held: Option<Time>,
    /// When the turn began that takes frames.
    turn: Option<Time>,
}

impl Unwanted {
    /// A turn that began now brought this many packets for controllers.
    pub(crate) fn told(&mut self, count: u64, now: Time) {
        self.told += count;
        self.turn = Some(now);
    }

    /// A controller sent what may be an answer.
    pub(crate) fn answered(&mut self) {
        self.answers += 1;
    }

    /// The turn has ended: until when no frames are taken; `None` if they may be at once. `spent` is asked for rarely.
    pub(crate) fn pause(
        &mut self,
        now: Time,
        spent: impl FnOnce() -> Option<Spent>,
    ) -> Option<Time> {
        // Only turns that took frames are measured.
        let turn = self.turn.take()?;
        if now >= self.begun + WINDOW {
            self.judge(now, spent);
        }
        self.held?;
        Some(now + (SHARE * now.saturating_sub(turn)).min(LONGEST))
    }

    fn judge(&mut self, now: Time, spent: impl FnOnce() -> Option<Spent>) {
        let unanswered = self.told >= MANY && self.answers * 4 < self.told;
        let is_whole = now < self.begun + 2 * WINDOW;
        // A thread that pauses does not wait for a CPU: while frames are held back, that says nothing.
        let before = self.spent.take().filter(|_| is_whole);
        self.held = match self.held {
            _ if !unanswered => None,
            Some(since) if now < since + HELD => Some(since),
            // Free again for a window: whether controllers answer shows only while they hear.
            Some(_) => None,
            None => {
                self.spent = spent();
                let waits = |(before, spent): (Spent, Spent)| {
                    4 * spent.waited.saturating_sub(before.waited)
                        >= spent.ran.saturating_sub(before.ran)
                };
                before.zip(self.spent).is_some_and(waits).then_some(now)
            }
        };
        (self.begun, self.told, self.answers) = (now, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = 1_000_000;

    /// Turns of 1 ms with this many packets and answers each, for this long; a thread that waits for a share of the time.
    fn run(unwanted: &mut Unwanted, from: Time, span: Time, each: [u64; 2], waits: bool) -> Time {
        let (mut now, mut paused) = (from, 0);
        while now < from + span {
            unwanted.told(each[0], now);
            (0..each[1]).for_each(|_| unwanted.answered());
            now += MS;
            let spent = Spent { ran: now, waited: if waits { now / 2 } else { 0 } };
            if let Some(until) = unwanted.pause(now, || Some(spent)) {
                paused += until - now;
                now = until;
            }
        }
        paused
    }

    #[test]
    fn frames_are_held_back_only_where_nobody_answers_and_others_wait() {
        let shares = [([50, 0], true), ([50, 50], true), ([50, 0], false), ([0, 0], true)];
        let paused = shares.map(|(each, waits)| {
            run(&mut Unwanted::default(), 1000 * MS, 1000 * MS, each, waits) / MS
        });
        assert!((700..=800).contains(&paused[0]), "{paused:?}");
        assert_eq!(paused[1..], [0, 0, 0]);
    }

    #[test]
    fn they_are_taken_again_when_it_is_answered() {
        let mut unwanted = Unwanted::default();
        assert!(run(&mut unwanted, 1000 * MS, 100 * MS, [50, 0], true) > 0);
        run(&mut unwanted, 1100 * MS, 50 * MS, [50, 50], true);
        assert_eq!(run(&mut unwanted, 1200 * MS, 500 * MS, [50, 50], true), 0);
        // A window too long ago says nothing about this one.
        assert_eq!(run(&mut unwanted, 5000 * MS, 15 * MS, [50, 0], true), 0);
    }

    #[test]
    fn no_pause_is_long_and_none_is_without_frames() {
        let mut unwanted = Unwanted { held: Some(0), begun: 10 * MS, ..Unwanted::default() };
        assert_eq!(unwanted.pause(11 * MS, || None), None);
        unwanted.told(50, 11 * MS);
        assert_eq!(unwanted.pause(12 * MS, || None), Some(16 * MS));
        unwanted.told(50, 12 * MS);
        assert_eq!(unwanted.pause(29 * MS, || None), Some(49 * MS));
    }
}
