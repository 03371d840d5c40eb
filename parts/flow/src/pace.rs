//! How often frames are taken while many of them are for controllers.
//!
//! Each packet for a controller wakes that up, its answer wakes this process up, and in between the next frame does. Where
//! they share processors, most of the time goes to switching tasks. So while packets for controllers come faster than any
//! exchange in turns could make them, a turn that takes frames begins some time after the last one, and both sides
//! have many at a time. Frames that the tables decide about alone do not wait.

use std::time::Duration;

use netloom_pipeline::Time;

/// From a turn with packets for controllers to the next one that takes frames.
const SPAN: Time = 200_000;

/// Packets for controllers are counted over so long, and are many from this count on: 16,000 a second. An exchange with a
/// controller in turns, a packet at a time, takes 60 us or more.
const WINDOW: Time = 1_000_000;
const MANY: u64 = 16;

/// Packets for controllers, lately.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the window began, what has come in it, and in the one before.
    begun: Time,
    count: u64,
    before: u64,
    /// When the last came.
    last: Time,
}

impl Pace {
    /// A turn brought this many packets for controllers.
    pub(crate) fn told(&mut self, count: u64, now: Time) {
        if count == 0 {
            return;
        }
        // Two windows count: at the start of one the rate is still known from the one before.
        let since = now.saturating_sub(self.begun);
        if since >= WINDOW {
            self.before = if since < 2 * WINDOW { self.count } else { 0 };
            (self.begun, self.count) = (now, 0);
        }
        self.count += count;
        self.last = now;
    }

    /// How long frames that wait are to wait still; `None` if they are taken at once.
    pub(crate) fn rest(&self, now: Time) -> Option<Duration> {
        let (many, end) = (self.count.max(self.before) >= MANY, self.last + SPAN);
        (many && now < end).then(|| Duration::from_nanos(end - now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Time = 1000;

    #[test]
    fn frames_wait_only_while_many_are_for_controllers() {
        let (mut pace, mut now) = (Pace::default(), 50 * WINDOW);
        assert_eq!(pace.rest(now), None);
        // In turns, as fast as can be.
        for _ in 0..1000 {
            now += 70 * US;
            pace.told(1, now);
            assert_eq!(pace.rest(now + 70 * US), None);
        }
        // Of several senders.
        for _ in 0..20 {
            now += 25 * US;
            pace.told(1, now);
        }
        assert_eq!(pace.rest(now), Some(Duration::from_micros(200)));
        assert_eq!(pace.rest(now + 150 * US), Some(Duration::from_micros(50)));
        assert_eq!(pace.rest(now + 200 * US), None);
        // Enough at a time that they count as many in every window.
        for _ in 0..100 {
            now += 250 * US;
            pace.told(8, now);
            assert!(pace.rest(now + 25 * US).is_some());
        }
        // Those that the tables decide about do not count.
        now += 250 * US;
        pace.told(0, now);
        assert_eq!(pace.rest(now), None);
    }

    #[test]
    fn a_burst_is_forgotten_soon() {
        let (mut pace, mut now) = (Pace::default(), 50 * WINDOW);
        pace.told(500, now);
        assert!(pace.rest(now).is_some());
        for _ in 0..3 {
            now += WINDOW;
            pace.told(1, now);
        }
        assert_eq!(pace.rest(now), None);
        pace.told(500, now);
        now += 2 * WINDOW;
        pace.told(1, now);
        assert_eq!(pace.rest(now), None);
    }
}
