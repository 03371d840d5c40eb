//! An idle port: how it is woken, and what it does before it sleeps.
//!
//! A sleeping port asks its senders to ring (an odd epoch in its inbox) and then checks all rings
//! once more, so no frame is missed. The data descriptor is an epoll with all bells,
//! edge-triggered, and a bell of the port's own that stays set while frames are left.

use std::time::{Duration, Instant};

use super::SwitchPort;
use crate::Result;
use crate::inbox::Counter;

/// Keys of watched descriptors; those of other ports' bells do not matter.
pub(super) const CONTROL: u64 = 0;
pub(super) const MORE: u64 = 1;
pub(super) const TIMER: u64 = 2;
pub(super) const BELL: u64 = 3;

/// Longest polling for a frame before sleeping: a sleep and its wake-up cost about as much.
const LONGEST_LOOK: Duration = Duration::from_micros(50);

/// Polls between two clock readings.
const LOOKS: u32 = 32;

/// Adapts polling to its recent success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spin {
    most: Duration,
    now: Duration,
}

impl Spin {
    pub(super) fn new() -> Spin {
        // With one processor the sender cannot run while this port polls.
        let several = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
        let most = if several { LONGEST_LOOK } else { Duration::ZERO };
        Spin { most, now: most }
    }

    /// Polls until `found` or it no longer pays.
    fn look(&mut self, found: impl Fn() -> bool) -> bool {
        if self.now.is_zero() {
            return false;
        }
        let started = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if found() {
                    self.now = self.most;
                    return true;
                }
                std::hint::spin_loop();
            }
            if started.elapsed() >= self.now {
                self.now /= 2;
                return false;
            }
        }
    }

    /// Records that a frame came after a sleep of this length.
    fn slept(&mut self, time: Duration) {
        if time < self.most {
            self.now = self.most;
        }
    }
}

/// Longest gap between bursts for which the next is polled for, and the polling time.
const CLOSE: Duration = Duration::from_micros(20);
const LINGER: Duration = Duration::from_micros(4);

/// Whether a port that ran empty polls briefly before it asks to be woken. A receiver faster than
/// its sender would otherwise sleep after each frame, and the sender would need a system call for
/// every one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linger {
    several: bool,
    emptied: Option<Instant>,
    /// Polls to skip: twice as many after each in vain, as when the sender waits for the very CPU
    /// that polling keeps busy.
    pass: u32,
    penalty: u32,
}

/// Most polls skipped in a row.
const MOST_PASSED: u32 = 63;

impl Linger {
    pub(super) fn new() -> Linger {
        let several = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
        Linger { several, emptied: None, pass: 0, penalty: 0 }
    }

    /// Polls until `found`, if the port also ran empty a moment ago.
    fn look(&mut self, found: impl Fn() -> bool) -> bool {
        if !self.several || self.pass > 0 {
            self.pass = self.pass.saturating_sub(1);
            return false;
        }
        let started = Instant::now();
        let close = self.emptied.is_some_and(|emptied| started - emptied < CLOSE);
        self.emptied = Some(started);
        while close && started.elapsed() < LINGER {
            for _ in 0..LOOKS {
                if found() {
                    self.penalty = 0;
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        if close {
            self.penalty = (2 * self.penalty + 1).min(MOST_PASSED);
            self.pass = self.penalty;
        }
        false
    }
}

impl SwitchPort {
    /// Whether frames came after all, if they come close together.
    #[cold]
    pub(super) fn linger(&mut self) -> bool {
        let mut linger = self.linger;
        let found = linger.look(|| self.has_more());
        self.linger = linger;
        found
    }

    /// Frames are being taken: senders need not wake us.
    #[inline]
    pub(super) fn stay_awake(&mut self) {
        if self.asleep {
            self.asleep = false;
            self.rung = true;
            self.inbox.wake_up();
        }
    }

    /// Keeps the data descriptor readable.
    #[inline]
    pub(super) fn arm(&mut self) {
        if !self.armed {
            self.armed = true;
            self.more.ring();
        }
    }

    fn disarm(&mut self) {
        if self.armed {
            self.armed = false;
            self.more.silence();
        }
    }

    /// The rings were empty: from now on the data descriptor tells. True if a frame came meanwhile.
    #[cold]
    pub(super) fn rest(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.quiet) && self.asleep && !self.armed {
            // A bell rung since then shows at the data descriptor, and is cleared later.
            self.unsure = true;
            return Ok(self.has_more());
        }
        self.settle();
        let known = self.armed;
        self.cleared |= known;
        self.disarm();
        // Else only our own bell was set, which is silenced by now.
        if self.asleep || self.rung || !known {
            let seen = self.look(Some(Duration::ZERO))?;
            self.cleared |= seen;
            self.rung = false;
            // Nobody has rung since the epoch was announced.
            if self.asleep && !seen {
                return Ok(self.has_more());
            }
            self.stay_awake();
            // Bells rung so far were cleared after their epoch, or are checked below.
            self.rung = false;
        }
        Ok(!self.fall_asleep())
    }

    /// From now on the data descriptor tells, before any check for frames.
    pub(super) fn begin_to_tell(&mut self) -> Result<()> {
        if self.rest()? {
            self.arm();
        }
        Ok(())
    }

    /// Asks to be woken; false, and awake, if there is a frame.
    fn fall_asleep(&mut self) -> bool {
        self.asleep = true;
        self.inbox.fall_asleep();
        if self.has_more() {
            self.stay_awake();
            return false;
        }
        true
    }

    /// Checks, then sleeps until there may be a frame; false after the time.
    #[cold]
    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        end: &mut Option<Instant>,
    ) -> Result<bool> {
        let end = timeout.map(|timeout| *end.get_or_insert_with(|| Instant::now() + timeout));
        let mut spin = self.spin;
        let found = spin.look(|| self.has_more());
        self.spin = spin;
        if found {
            return Ok(true);
        }
        self.settle();
        self.disarm();
        self.stay_awake();
        if !self.fall_asleep() {
            return Ok(true);
        }
        let started = Instant::now();
        let left = end.map(|end| end.saturating_duration_since(started));
        if left.is_some_and(|left| left.is_zero()) {
            // A poller must still see what was rung meanwhile.
            return Ok(false);
        }
        self.count(Counter::Sleeps);
        let seen = self.look(left)?;
        self.stay_awake();
        self.rung = false;
        if seen {
            self.spin.slept(started.elapsed());
        }
        Ok(true)
    }

    /// Waits for bells and clears them; carries out the switch's messages. Returns whether anything showed.
    fn look(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let (mut control, mut timer) = (false, false);
        let seen = self.watch.wait(timeout, |key| match key {
            CONTROL => control = true,
            TIMER => timer = true,
            _ => {}
        })?;
        if timer {
            self.come_back()?;
        }
        if control {
            self.messages()?;
        }
        Ok(seen)
    }
}
