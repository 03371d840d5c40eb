//! Whose turn it is: each slice gets its share of the slicer's time, whatever the others send.
//!
//! Time that a slice's messages took is counted in its favour's reverse: the slice that has had least goes next. One that
//! was silent does not save up time: it begins where the others are. A slice with a quota of messages or of CPU time that
//! is used up is not read until it has some again; what its controllers send waits in their connections. Pure: times come
//! in as arguments.

use netloom_ofconn::Time;
use netloom_slicing::SliceId;

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;

/// An allowance holds what comes in so long, and a message or a turn at least.
const HELD: i128 = SECOND / 10;

/// What a slice does: it says something, or goes on with what it asked for of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorkItem {
    /// By this connection.
    Wire(u64),
    /// As this slice of the switch with this connection.
    Job(u64, SliceId),
}

/// Something that comes at a rate, is saved for a tenth of a second, and is paid back when too much was taken.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// A second.
    rate: i128,
    /// In units of 1/[`SECOND`].
    /// It has 128 bits: nanoseconds that passed times a rate in nanoseconds exceed 64 within ten seconds.
    level: i128,
    most: i128,
    at: Time,
}

impl Allowance {
    /// A full one of so much a second, which holds `least` or more.
    fn new(rate: u64, least: u64, now: Time) -> Allowance {
        let rate = i128::from(rate);
        let most = (rate * HELD).max(i128::from(least) * SECOND);
        Allowance { rate, level: most, most, at: now }
    }

    fn take(&mut self, amount: u64, now: Time) {
        self.fill(now);
        self.level -= i128::from(amount) * SECOND;
    }

    fn fill(&mut self, now: Time) {
        let passed = i128::from(now.saturating_sub(self.at));
        self.level = (self.level + passed * self.rate).min(self.most);
        self.at = self.at.max(now);
    }

    /// When something is there again; the past if it is.
    fn ready_at(&self) -> Time {
        // A whole unit, so that it is not asked for again at once.
        let missing = SECOND - self.level;
        if missing <= 0 {
            return self.at;
        }
        let wait = missing.div_euclid(self.rate.max(1)) + 1;
        self.at.saturating_add(Time::try_from(wait).unwrap_or(Time::MAX))
    }
}

/// What a slice may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Messages a second.
    pub(crate) messages: Option<u32>,
    /// Thousandths of a CPU.
    pub(crate) cpu_milli: Option<u32>,
}

/// A slice in the order of turns.
#[derive(Debug)]
pub(crate) struct Turns {
    messages: Option<Allowance>,
    /// In nanoseconds.
    cpu: Option<Allowance>,
    /// The time that it has had, or is counted as if.
    had: Time,
    /// The time that it has had.
    pub(crate) cpu_ns: u64,
    /// Messages that were read.
    pub(crate) read: u64,
    /// How many times it was not read because a quota was used up.
    pub(crate) held: u64,
    is_held: bool,
}

/// A turn that is taken at once by a slice with a quota of CPU time.
const LEAST_CPU: u64 = 1_000_000;

impl Turns {
    /// One that has had nothing.
    pub(crate) fn new(bounds: Bounds, now: Time) -> Turns {
        let mut turns = Turns {
            messages: None,
            cpu: None,
            had: 0,
            cpu_ns: 0,
            read: 0,
            held: 0,
            is_held: false,
        };
        turns.bound(bounds, now);
        turns
    }

    /// Changes what it may take.
    pub(crate) fn bound(&mut self, bounds: Bounds, now: Time) {
        self.messages = bounds.messages.map(|rate| Allowance::new(rate.into(), 1, now));
        // A thousandth of a CPU is a million nanoseconds a second.
        let cpu = |milli: u32| Allowance::new(u64::from(milli) * 1_000_000, LEAST_CPU, now);
        self.cpu = bounds.cpu_milli.map(cpu);
    }

    /// When it may be read; `None`: now.
    pub(crate) fn waits_until(&mut self, now: Time) -> Option<Time> {
        let mut until = None;
        for allowance in [&mut self.messages, &mut self.cpu].into_iter().flatten() {
            allowance.fill(now);
            let at = allowance.ready_at();
            until = until.max((at > now).then_some(at));
        }
        if until.is_some() && !self.is_held {
            self.held += 1;
        }
        self.is_held = until.is_some();
        until
    }

    /// How many messages it may have read now, of so many.
    pub(crate) fn room(&self, most: usize) -> usize {
        let left = self.messages.map_or(i128::MAX, |messages| messages.level / SECOND);
        usize::try_from(left.max(0)).unwrap_or(usize::MAX).min(most)
    }

    /// It begins to have something to do, where those are that had something before.
    pub(crate) fn begin(&mut self, others: Time) {
        self.had = self.had.max(others);
    }

    /// What it has had, or is counted as if.
    pub(crate) fn had(&self) -> Time {
        self.had
    }

    /// It has had a turn.
    pub(crate) fn took(&mut self, messages: u64, cpu_ns: u64, now: Time) {
        self.read += messages;
        self.cpu_ns += cpu_ns;
        // What takes no time is not for free.
        self.had += cpu_ns.max(1);
        if let Some(allowance) = &mut self.messages {
            allowance.take(messages, now);
        }
        if let Some(allowance) = &mut self.cpu {
            allowance.take(cpu_ns, now);
        }
    }
}

/// Which of these goes next: the one that has had least.
pub(crate) fn next<'t>(ready: impl Iterator<Item = (usize, &'t Turns)>) -> Option<usize> {
    ready.min_by_key(|(at, turns)| (turns.had, *at)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = 1_000_000;

    fn turns(messages: Option<u32>, cpu_milli: Option<u32>) -> Turns {
        Turns::new(Bounds { messages, cpu_milli }, 0)
    }

    #[test]
    fn one_that_needs_much_time_gets_as_much_as_one_that_needs_little() {
        let mut all = [turns(None, None), turns(None, None)];
        for _ in 0..1000 {
            let at = next(all.iter().enumerate()).expect("one is next");
            let cost = if at == 0 { 1000 } else { 50 };
            all[at].took(1, cost, 0);
        }
        let [much, little] = all.map(|turns| turns.cpu_ns);
        assert!(much.abs_diff(little) <= 1000, "{much} {little}");
    }

    #[test]
    fn silence_saves_nothing_up() {
        let mut all = [turns(None, None), turns(None, None)];
        for _ in 0..100 {
            all[0].took(1, 1000, 0);
        }
        let others = all[0].had();
        all[1].begin(others);
        for _ in 0..10 {
            let at = next(all.iter().enumerate()).expect("one is next");
            all[at].took(1, 1000, 0);
        }
        assert_eq!(all.map(|turns| turns.read), [105, 5]);
    }

    #[test]
    fn a_quota_of_messages_is_kept_over_any_second() {
        let mut turns = turns(Some(1000), None);
        let (mut now, mut read) = (0, 0_u64);
        while now < 5000 * MS {
            match turns.waits_until(now) {
                Some(at) => {
                    assert!(at > now);
                    now = at;
                }
                None => {
                    let room = turns.room(16) as u64;
                    assert!(room > 0, "what is not held may be read");
                    turns.took(room, 10, now);
                    read += room;
                }
            }
        }
        // The rate, and what was saved.
        assert!((4990..=5110).contains(&read), "{read}");
        assert!(turns.held > 100);
    }

    #[test]
    fn a_quota_of_time_is_paid_back() {
        let mut turns = turns(None, Some(100));
        turns.took(1, 300 * MS, 0);
        let until = turns.waits_until(0).expect("it has had too much");
        // 10 ms were saved; 290 ms come at a tenth.
        assert!((2890 * MS..=2911 * MS).contains(&until), "{until}");
        assert_eq!(turns.waits_until(until), None);
    }
}
