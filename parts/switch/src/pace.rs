//! Frames for many on their way: which ports they have reached, and which ports they wait for.
//!
//! A port that falls behind is waited for again only when it has taken a good part of its downlink, so that a
//! slow reader holds up a sender for little of its time. Works on positions; time is an argument.

use std::time::{Duration, Instant};

/// How long frames for many are held for a receiver until it has taken a lot.
pub(crate) const SHARED: Duration = Duration::from_millis(10);

/// The ports that a held frame has been given to, and the mirror sessions that copy it there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    ports: [u64; 4],
    pub(crate) sessions: u16,
}

impl Reached {
    pub(crate) fn has(&self, port: u8) -> bool {
        self.ports.get(usize::from(port / 64)).is_some_and(|word| word >> (port % 64) & 1 == 1)
    }

    pub(crate) fn add(&mut self, port: u8, sessions: u16) {
        if let Some(word) = self.ports.get_mut(usize::from(port / 64)) {
            *word |= 1 << (port % 64);
        }
        self.sessions |= sessions;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ports == [0; 4]
    }
}

/// When frames for many began to wait for a port, and its position then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    since: Instant,
    tail: u64,
}

impl Pace {
    /// Whether frames may wait for a receiver that has come to position `tail`; a `lot` is in bytes.
    pub(crate) fn keeps_up(of: &mut Option<Pace>, tail: u64, lot: u64, now: Instant) -> bool {
        // One that has taken its lot since then keeps up, and a new measure begins.
        match of.filter(|pace| tail - pace.tail < lot) {
            Some(pace) => now.saturating_duration_since(pace.since) < SHARED,
            None => {
                *of = Some(Pace { since: now, tail });
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_falls_behind_is_waited_for_again_after_a_lot() {
        let start = Instant::now();
        let after = |part: u32| start + SHARED / 4 * part;
        let mut pace = None;
        let mut keeps_up = |tail, now| Pace::keeps_up(&mut pace, tail, 100, now);
        assert!(keeps_up(0, start) && keeps_up(50, after(3)));
        assert!(!keeps_up(99, after(4)) && !keeps_up(99, after(1000)));
        assert!(keeps_up(100, after(1001)) && keeps_up(100, after(1004)));
        assert!(!keeps_up(100, after(1005)));
    }

    #[test]
    fn who_is_reached_is_remembered() {
        let mut reached = Reached::default();
        assert!(reached.is_empty());
        for (port, sessions) in [(1, 0), (64, 2), (255, 1)] {
            assert!(!reached.has(port));
            reached.add(port, sessions);
            assert!(reached.has(port) && !reached.is_empty());
        }
        assert_eq!(reached.sessions, 3);
    }
}
