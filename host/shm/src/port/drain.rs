//! The last frames of a port: published, and waited for until others have taken them.
//!
//! What is in an edge's ring stays readable when its sender has ended. Frames that go through the switch
//! are gone with the port's uplink, so the end of a port waits for the switch to take them. All waits are bounded.

use std::time::{Duration, Instant};

use super::SwitchPort;
use super::send::{ANSWER, Out};
use crate::Result;

/// Interval for checking whether receivers have taken the frames.
const LOOK: Duration = Duration::from_micros(200);

impl SwitchPort {
    /// Publishes all accepted frames, including those held for edges if the switch answers soon.
    fn publish(&mut self) {
        self.flush();
        let _ = self.await_answers(ANSWER, |port| port.opening != 0);
    }

    /// Publishes all accepted frames, and waits for the switch to take those that go through it, at most as
    /// long as a send may wait for room.
    pub(super) fn finish(&mut self) {
        self.publish();
        let end = Instant::now() + self.options.wait;
        while self.untaken_by_switch() != 0 && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }

    fn untaken_by_switch(&mut self) -> u64 {
        match self.outs.first_mut() {
            Some(uplink @ Out::Open(_)) if self.control.channel().is_some() => uplink.untaken(),
            _ => 0,
        }
    }

    /// Publishes all accepted frames and waits, at most `bound`, until their receivers, the other
    /// ports and the switch, have taken them. Returns the number of frames left, which are lost
    /// when the port ends: their receivers are slow, or have gone meanwhile.
    ///
    /// # Errors
    /// As [`SwitchPort::send`].
    pub fn drain(&mut self, bound: Duration) -> Result<u64> {
        let end = Instant::now() + bound;
        self.publish();
        loop {
            // Before handling messages, which may remove an edge with its frames.
            let left: u64 = self.outs.iter_mut().map(Out::untaken).sum();
            if left == 0 || Instant::now() >= end || self.is_gone() {
                return Ok(left);
            }
            std::thread::sleep(LOOK);
            self.messages()?;
        }
    }
}
