//! Copies a frame into the downlinks of its receivers.
//!
//! Each sender has a share of each downlink (`shares.rs`): a sender that floods loses its own frames. A frame
//! for one known station is held for it. A frame for many goes at once to those that have room, and is held
//! for the others only while they keep up (`pace.rs`), so that a slow receiver costs the rest little. What
//! finds no room in the end is counted for its sender and at the receiver.

use std::time::Instant;

use netloom_bridge::{Class, Drop, Vid, egress};
use netloom_shm::inbox::Counter;
use netloom_shm::layout::HEADER;
use netloom_shm::protocol::MIRRORED;
use netloom_shm::ring::Pushed;

use super::Hub;
use crate::pace::{Pace, Reached};
use crate::port::Port;

/// Part of a downlink that a receiver must take before frames for many wait for it again.
const LOT: u64 = 4;

/// Result of giving a frame to a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Done,
    /// There is no room, or none for this sender.
    Full,
    No,
}

/// Whether a frame may be held when receivers have no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    IsOver,
}

/// A frame being relayed.
pub(super) struct Frame<'a> {
    /// The number of its sender.
    pub(super) from: u8,
    pub(super) vid: Option<Vid>,
    /// Its header and the frame itself.
    pub(super) whole: &'a [u8],
}

impl Port {
    /// Whether the port has moved since the last wait for it timed out.
    fn moves(&self) -> bool {
        self.stalled != Some(self.shares.tail())
    }

    /// Whether frames that others have got, too, may wait for the port.
    fn keeps_up(&mut self, now: Instant) -> bool {
        let (tail, lot) = (self.shares.tail(), self.downlink.size() / LOT);
        Pace::keeps_up(&mut self.pace, tail, lot, now)
    }
}

impl Hub {
    /// Gives a frame to all its receivers that it has not reached. Returns the mirror sessions that copy it on
    /// egress, or `None` if some had no room, may soon, and the frame may still wait.
    pub(super) fn spread(
        &mut self,
        frame: &Frame<'_>,
        reached: &mut Reached,
        (class, only): (Class, Option<u16>),
        (now, patience): (Instant, Patience),
    ) -> Option<u16> {
        self.full.clear();
        for place in 0..self.here.len() {
            let Some(to) = self.here.get(place).copied() else { break };
            let wanted = to != frame.from && only.is_none_or(|only| only == u16::from(to));
            if !wanted || reached.has(to) || egress(&self.rules, u16::from(to), class).is_err() {
                continue;
            }
            match self.give(to, u16::from(frame.from), frame) {
                Given::Done => reached.add(to, self.mirrors.leaving(u16::from(to))),
                Given::Full => self.full.push(to),
                Given::No => {}
            }
        }
        if self.full.is_empty() {
            return Some(reached.sessions);
        }
        let full = std::mem::take(&mut self.full);
        // While it waits for one port it keeps the frames behind it from the others.
        let is_shared = !reached.is_empty();
        let waits = patience == Patience::Waits && self.is_worth_waiting(&full, is_shared, now);
        if !waits {
            self.miss(frame.from, &full, patience);
        }
        self.full = full;
        (!waits).then_some(reached.sessions)
    }

    /// Whether a frame may wait for any of these ports.
    fn is_worth_waiting(&mut self, full: &[u8], is_shared: bool, now: Instant) -> bool {
        full.iter().any(|number| {
            let port = self.ports.get_mut(usize::from(*number)).and_then(Option::as_mut);
            port.is_some_and(|port| port.moves() && (!is_shared || port.keeps_up(now)))
        })
    }

    /// Counts a frame that these ports had no room for, on them and on its sender.
    fn miss(&mut self, from: u8, ports: &[u8], patience: Patience) {
        for number in ports {
            let port = self.ports.get_mut(usize::from(*number)).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            port.missed += 1;
            // It was waited for in vain: until it moves, nobody waits for it again.
            if patience == Patience::IsOver {
                port.stalled = Some(port.shares.tail());
            }
            self.drop_frame(from, Drop::Full);
        }
    }

    pub(super) fn mirror(&mut self, sessions: u16, frame: &Frame<'_>) {
        let body = frame.whole.get(HEADER..).unwrap_or_default();
        let wanted = self.mirrors.of(sessions).filter(|s| s.filter.matches(frame.vid, body));
        let to: Vec<u16> = wanted.map(|s| s.to).filter(|to| *to != u16::from(frame.from)).collect();
        for to in to.into_iter().filter_map(|to| u8::try_from(to).ok()) {
            // Copies wait for nobody: a slow observer must not hold up what it observes.
            match self.give(to, u16::from(frame.from) | MIRRORED, frame) {
                Given::Done => self.inbox.add(Counter::Mirrored, 1),
                Given::Full => {
                    self.inbox.add(Counter::DroppedFull, 1);
                    let port = self.ports.get_mut(usize::from(to)).and_then(Option::as_mut);
                    port.into_iter().for_each(|port| port.missed += 1);
                }
                Given::No => {}
            }
        }
    }

    /// Writes a frame to a downlink, if the sender's share allows it.
    fn give(&mut self, to: u8, origin: u16, frame: &Frame<'_>) -> Given {
        let port = self.ports.get_mut(usize::from(to)).and_then(Option::as_mut);
        let Some(port) = port else { return Given::No };
        let pushed = match port.admits(frame.from, frame.whole.len()) {
            Some(true) => port.downlink.queue(origin, frame.whole),
            Some(false) => Pushed::Full,
            None => Pushed::Corrupt,
        };
        match pushed {
            Pushed::Done => {
                port.shares.wrote(frame.from, port.downlink.written());
                if !std::mem::replace(&mut port.written, true) {
                    self.written.push(to);
                }
                let bytes = frame.whole.len().saturating_sub(HEADER);
                self.inbox.add(Counter::SentFrames, 1);
                self.inbox.add(Counter::SentBytes, bytes as u64);
                Given::Done
            }
            Pushed::Full => {
                // Publish at once: a slow receiver must not also wait for the end of the turn.
                if port.downlink.flush() {
                    self.inbox.add(Counter::Wakes, 1);
                }
                Given::Full
            }
            // The ring can never hold it, so it need not wait.
            Pushed::Refused => {
                self.inbox.add(Counter::DroppedOversize, 1);
                Given::No
            }
            Pushed::Corrupt => {
                self.inbox.add(Counter::CorruptEdges, 1);
                self.bad.push(to);
                Given::No
            }
        }
    }

    /// Publishes written frames.
    pub(super) fn flush(&mut self) {
        for number in std::mem::take(&mut self.written) {
            let port = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            port.written = false;
            if port.downlink.flush() {
                self.inbox.add(Counter::Wakes, 1);
            }
        }
    }
}
