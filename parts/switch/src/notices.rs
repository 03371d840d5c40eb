//! Which senders are notified of a station's port, and how often.
//!
//! A port that has not heard of a station sends its frames through the switch. If the switch knows the
//! station, it says so, and the sender opens an edge. Telling is bounded for each sender: one that does not
//! listen gets a message now and then, and its frames are relayed all the same.

use std::time::{Duration, Instant};

use netloom_bridge::{Mac, Vid};

/// Most messages at once.
const BURST: u32 = 64;

/// Interval after which one more may be sent.
const REFILL: Duration = Duration::from_millis(10);

/// How long the same message is not repeated: its receiver may be on its way to open the edge.
const AGAIN: Duration = Duration::from_millis(10);

/// What a sender is to be told: where a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The sender.
    pub(crate) from: u8,
    /// The station's port.
    pub(crate) to: u8,
    pub(crate) vid: Option<Vid>,
    pub(crate) mac: Mac,
}

/// What a port was told.
#[derive(Debug)]
pub(crate) struct Notices {
    left: u32,
    /// Until when `left` has been refilled.
    since: Instant,
    last: Option<(Hint, Instant)>,
}

impl Notices {
    pub(crate) fn new(now: Instant) -> Notices {
        Notices { left: BURST, since: now, last: None }
    }

    /// Whether the port may be told this now; it counts as told then.
    pub(crate) fn admits(&mut self, hint: Hint, now: Instant) -> bool {
        let is_again =
            |(last, at): (Hint, Instant)| last == hint && now.saturating_duration_since(at) < AGAIN;
        if self.last.is_some_and(is_again) {
            return false;
        }
        let steps = now.saturating_duration_since(self.since).as_millis() / REFILL.as_millis();
        if steps > 0 {
            let more = u32::try_from(steps).unwrap_or(BURST);
            self.left = self.left.saturating_add(more).min(BURST);
            self.since = now;
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.last = Some((hint, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(last: u8) -> Hint {
        Hint { from: 1, to: 2, vid: None, mac: Mac([2, 0, 0, 0, 0, last]) }
    }

    #[test]
    fn the_same_is_told_again_after_a_while() {
        let start = Instant::now();
        let mut told = Notices::new(start);
        assert!(told.admits(hint(1), start) && !told.admits(hint(1), start));
        assert!(!told.admits(hint(1), start + AGAIN - Duration::from_nanos(1)));
        assert!(told.admits(hint(1), start + AGAIN));
        assert!(told.admits(hint(2), start + AGAIN));
    }

    #[test]
    fn who_asks_for_many_is_told_of_some() {
        let start = Instant::now();
        let mut told = Notices::new(start);
        let mut count =
            |at| (0..1000).filter(|n: &u32| told.admits(hint(n.to_le_bytes()[0]), at)).count();
        assert_eq!(count(start), 64);
        assert_eq!(count(start + REFILL), 1);
        assert_eq!(count(start + REFILL * 4), 3);
        assert_eq!(count(start + Duration::from_secs(3600)), 64);
    }
}
