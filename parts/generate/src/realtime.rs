//! Takes real-time priority where other work keeps taking the sender's CPU, and then sleeps in between.
//!
//! A thread that polls the clock with the highest niceness still loses its CPU to other work for milliseconds at a time.
//! With real-time priority it does not, but the kernel stops a real-time thread that never sleeps for up to 50 ms of
//! each second. So from then on it sleeps for a tenth of the time, for some 15 us at a time: others run in that
//! time, and a frame that is due in it is late by that and the wake-up. Both need permission; without it nothing changes.
//! Where nothing else wants the CPU, nothing changes either: polling is then more exact than waking up.

use netloom_sys::realtime::{RealTime, preemptions};

/// An interruption in nanoseconds from which on it is looked whether another thread was its cause: none of the
/// kernel's own is as long.
pub(crate) const LONG: u64 = 200_000;
/// This many of them make a rival.
const RIVAL: u32 = 2;
/// Time awake in nanoseconds after which a real-time sender sleeps.
const AWAKE: u64 = 150_000;
/// The part of the time awake that it sleeps: more than the twentieth that the kernel would take.
const PART: u64 = 10;

/// Whether and how a sender insists on its CPU. It is the thread's that made it.
#[derive(Debug)]
pub(crate) struct CpuClaim {
    preempted: u64,
    rivals: u32,
    refused: bool,
    real: Option<RealTime>,
    /// Since when the thread is awake, and how long it owes to sleep.
    since: u64,
    owed: u64,
}

impl CpuClaim {
    pub(crate) fn new() -> CpuClaim {
        let preempted = preemptions();
        CpuClaim { preempted, rivals: 0, refused: false, real: None, since: 0, owed: 0 }
    }

    /// Whether it has taken real-time priority.
    pub(crate) fn is_real(&self) -> bool {
        self.real.is_some()
    }

    /// Notes a long interruption that ended now: after some by other threads, real-time priority is taken.
    #[cold]
    pub(crate) fn interrupted(&mut self, now: u64) {
        let preempted = preemptions();
        // A hypervisor's pause switches no threads, so it makes no rival.
        self.rivals += u32::from(preempted > self.preempted);
        self.preempted = preempted;
        if self.rivals >= RIVAL && self.real.is_none() && !self.refused {
            self.real = RealTime::take().ok();
            self.refused = self.real.is_none();
            self.since = now;
        }
    }

    /// How long to sleep now, in nanoseconds.
    #[inline]
    pub(crate) fn rest(&mut self, now: u64) -> Option<u64> {
        if self.real.is_none() || now.saturating_sub(self.since) < AWAKE {
            return None;
        }
        self.owed += (now - self.since) / PART;
        self.since = now;
        (self.owed > 0).then_some(self.owed)
    }

    /// Notes that the sleep is over.
    pub(crate) fn rested(&mut self, now: u64) {
        self.owed = self.owed.saturating_sub(now.saturating_sub(self.since));
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_rival_it_never_rests() {
        let mut insist = CpuClaim::new();
        for now in (0..100).map(|n| n * 1_000_000) {
            assert_eq!(insist.rest(now), None);
        }
        assert!(!insist.is_real());
    }

    #[test]
    fn a_real_time_sender_sleeps_a_tenth_of_the_time() {
        let mut insist = CpuClaim::new();
        insist.real = RealTime::take().ok();
        if !insist.is_real() {
            assert_eq!(insist.rest(1 << 40), None, "not permitted");
            return;
        }
        let (mut now, mut slept) = (0, 0);
        while now < 1_000_000_000 {
            now += 1000;
            if let Some(rest) = insist.rest(now) {
                // It wakes later than it wanted to.
                now += rest + 7000;
                slept += rest + 7000;
                insist.rested(now);
            }
        }
        assert!((80_000_000..150_000_000).contains(&slept), "{slept}");
    }
}
