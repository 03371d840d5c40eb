//! Receives from all rings in turn, a bounded number of frames each.
//!
//! A newly opened ring is read only after everything in the downlink at its opening, so that frames
//! relayed earlier come first, and frames relayed later do not delay it. Nothing here waits.

use std::time::Duration;

use super::accept::Accepted;
use super::tally::{self, Flow};
use super::{MOST_FRAME, Received, SwitchPort};
use crate::Result;
use crate::inbox::{Counter, Inbox};
use crate::protocol::Direction;
use crate::ring::{Reader, Taken};
use crate::wake::Bell;

/// Frames of one ring before others have their turn.
const BURST: u32 = 64;

/// Dropped frames after which a call ends with nothing: a sender of only such frames must not keep
/// the user from other work.
const MOST_DROPPED: u32 = 256;

/// Most frames taken out of a closed ring: its sender may continue to write.
const MOST_LAST: u32 = 1 << 18;

/// Most bytes taken out of rings early.
pub(super) const MOST_EARLY: usize = 4 << 20;

/// An edge from another port, or from the switch.
pub(super) struct In {
    /// 0 for the downlink.
    pub(super) number: u8,
    /// The generation of the other port.
    pub(super) generation: u32,
    pub(super) reader: Reader,
    pub(super) bell: Bell,
    /// Not read until this much of the downlink was taken.
    pub(super) after: Option<u64>,
    flow: Flow,
}

impl In {
    pub(super) fn new(number: u8, generation: u32, reader: Reader, bell: Bell) -> In {
        In { number, generation, reader, bell, after: None, flow: Flow::default() }
    }

    /// Writes the counts.
    pub(super) fn settle(&mut self, inbox: &Inbox) {
        tally::received(inbox, self.number, &mut self.flow);
    }

    #[inline]
    pub(super) fn count(&mut self, bytes: usize, is_super: bool) {
        self.flow.add(bytes, is_super);
    }
}

impl SwitchPort {
    /// Receives the next frame into `buffer` ([`MOST_FRAME`] bytes fit any frame). Never waits.
    ///
    /// # Errors
    /// An answer that no kernel is known to give here; the port remains usable.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        self.cleared = false;
        self.unsure = false;
        loop {
            let Some(found) = self.next(buffer)? else {
                if self.linger() || self.rest()? {
                    continue;
                }
                return Ok(if self.is_gone() { Received::Gone } else { Received::Empty });
            };
            self.stay_awake();
            self.quiet = false;
            if self.has_more() || self.linger() || self.rest()? {
                self.arm();
            } else {
                self.quiet = true;
            }
            return Ok(found);
        }
    }

    /// Like [`SwitchPort::receive`], but waits for a frame, at most the given time or for ever.
    /// Polls for some microseconds before it sleeps, if frames recently came that soon.
    ///
    /// # Errors
    /// As [`SwitchPort::receive`].
    #[inline]
    pub fn receive_wait(
        &mut self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Received> {
        let mut end = None;
        loop {
            if let Some(found) = self.next(buffer)? {
                return Ok(found);
            }
            if self.is_gone() {
                return Ok(Received::Gone);
            }
            if !self.wait(timeout, &mut end)? {
                return Ok(Received::Empty);
            }
        }
    }

    /// The next frame, if any. [`Received::Empty`] after too many dropped ones.
    #[inline]
    fn next(&mut self, buffer: &mut [u8]) -> Result<Option<Received>> {
        self.tick()?;
        if !self.done.is_empty() {
            return Ok(Some(self.give_out(buffer)));
        }
        self.look_at_rules();
        if self.cuts() && buffer.len() < MOST_FRAME {
            return self.next_by_scratch(buffer);
        }
        // Room for a tag before the frame, if one may be inserted.
        let front = if self.rules.plain { 0 } else { super::TAG.min(buffer.len()) };
        for _ in 0..MOST_DROPPED {
            let Some(found) = self.take(buffer, front)? else { return Ok(None) };
            match found {
                Accepted::Frame { start, length } => {
                    return Ok(Some(Received::Frame { start, length }));
                }
                Accepted::Kept => return Ok(Some(self.give_out(buffer))),
                Accepted::Truncated => return Ok(Some(Received::Truncated)),
                Accepted::Dropped => {}
            }
        }
        Ok(Some(Received::Empty))
    }

    /// Super-frames to be segmented must be read whole, whatever the user's buffer.
    fn next_by_scratch(&mut self, buffer: &mut [u8]) -> Result<Option<Received>> {
        for _ in 0..MOST_DROPPED {
            if !self.take_aside()? {
                return Ok(None);
            }
            if !self.done.is_empty() {
                return Ok(Some(self.give_out(buffer)));
            }
        }
        Ok(Some(Received::Empty))
    }

    /// The oldest of the frames checked before.
    fn give_out(&mut self, buffer: &mut [u8]) -> Received {
        let Some((_, frame)) = self.done.first() else { return Received::Empty };
        let length = frame.len();
        let found = match buffer.get_mut(..length) {
            Some(place) => {
                place.copy_from_slice(frame);
                Received::Frame { start: 0, length }
            }
            None => Received::Truncated,
        };
        self.done.pop();
        if found == Received::Truncated {
            self.count(Counter::DroppedTruncated);
        }
        found
    }

    /// Takes a frame of any ring, and checks it; `None` if there is none.
    #[inline]
    fn take(&mut self, buffer: &mut [u8], front: usize) -> Result<Option<Accepted>> {
        loop {
            if self.budget == 0 && !self.turn() {
                return Ok(None);
            }
            let (Some(of), Some(room)) = (self.ins.get_mut(self.current), buffer.get_mut(front..))
            else {
                return Ok(None);
            };
            match of.reader.take(&self.inbox, room) {
                Taken::Frame { start, length, origin } => {
                    self.budget = self.budget.saturating_sub(1);
                    return self.accept(buffer, front + start, length, origin).map(Some);
                }
                Taken::Truncated { .. } => {
                    let number = of.number;
                    self.count(Counter::DroppedTruncated);
                    self.inbox.add_drops(number.into(), 1);
                    return Ok(Some(Accepted::Truncated));
                }
                Taken::Empty => self.budget = 0,
                Taken::Corrupt => self.close_in(self.current)?,
            }
        }
    }

    /// Moves on to the next ring that has frames; the current one comes last. False if none has.
    #[cold]
    fn turn(&mut self) -> bool {
        if let Some(of) = self.ins.get_mut(self.current) {
            of.reader.settle(&self.inbox);
        }
        if self.fresh {
            self.begin_with_fresh();
        }
        let rings = self.ins.len();
        for step in 1..=rings {
            let place = (self.current + step) % rings;
            if self.ins.get(place).is_some_and(|of| of.after.is_none() && of.reader.has_more()) {
                (self.current, self.budget) = (place, BURST);
                return true;
            }
        }
        false
    }

    /// Starts reading new rings whose time has come.
    fn begin_with_fresh(&mut self) {
        // A corrupt one gives no more frames: nobody waits for it.
        let downlink = self.ins.first().map(|of| &of.reader).filter(|reader| !reader.is_corrupt());
        let taken = downlink.map_or(u64::MAX, |reader| reader.taken());
        self.fresh = false;
        for of in &mut self.ins {
            of.after = of.after.filter(|after| *after > taken);
            self.fresh |= of.after.is_some();
        }
    }

    /// Adds a ring, to be read when everything relayed so far was taken.
    pub(super) fn add_in(&mut self, mut new: In) {
        new.after = self.ins.first().and_then(|downlink| downlink.reader.shown());
        self.fresh |= new.after.is_some();
        self.ins.push(new);
    }

    /// Whether a frame may be present.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        let current = self.ins.get(self.current);
        current.is_some_and(|of| of.reader.has_more())
            || !self.done.is_empty()
            || self.ins.iter().any(|of| of.reader.has_more())
    }

    /// Takes the next frame and keeps it; false if there is none.
    fn take_aside(&mut self) -> Result<bool> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(MOST_FRAME, 0);
        let taken = self.take(&mut scratch, super::TAG);
        if let Ok(Some(Accepted::Frame { start, length })) = &taken {
            let frame = scratch.get(*start..start + length).unwrap_or_default();
            if self.done.push(0, frame, &[]).is_none() {
                self.count(Counter::DroppedFull);
            }
        }
        self.scratch = scratch;
        taken.map(|taken| taken.is_some())
    }

    /// Takes everything out of all rings, as far as it can be kept: their senders may be waiting
    /// for that while we wait for one of them.
    pub(super) fn take_early(&mut self) -> Result<()> {
        while self.done.room() >= MOST_EARLY / 2 && self.take_aside()? {}
        Ok(())
    }

    /// Takes the rest of a ring, and closes it.
    pub(super) fn end_in(&mut self, place: usize) -> Result<()> {
        let (current, budget) = (self.current, self.budget);
        let Some(of) = self.ins.get_mut(place) else { return Ok(()) };
        // What was relayed before the ring was opened comes first.
        if let Some(after) = of.after.take() {
            self.empty(0, after)?;
        }
        if self.empty(place, u64::MAX)? {
            (self.current, self.budget) = (current, budget);
            self.drop_in(place)?;
        }
        Ok(())
    }

    /// Keeps the rest of a ring up to position `end`, as far as there is room; false if the ring
    /// was closed meanwhile, and another one has its index.
    fn empty(&mut self, place: usize, end: u64) -> Result<bool> {
        let mut left = MOST_LAST;
        (self.current, self.budget) = (place, u32::MAX);
        while left > 0
            && self.done.room() >= MOST_FRAME
            && self.ins.get(place).is_some_and(|of| of.reader.taken() < end && of.reader.has_more())
        {
            let before = self.ins.len();
            self.take_aside()?;
            if self.ins.len() != before {
                return Ok(false);
            }
            left -= 1;
        }
        Ok(true)
    }

    /// Closes a ring with invalid content.
    fn close_in(&mut self, place: usize) -> Result<()> {
        let number = self.ins.get(place).map_or(0, |of| of.number);
        self.count(Counter::CorruptEdges);
        self.drop_in(place)?;
        if number == 0 {
            self.lost_switch()
        } else {
            self.tell_closed(number, Direction::In);
            Ok(())
        }
    }

    /// Unmaps a ring. The downlink, the first, is only ever replaced: it stays, and is not read.
    fn drop_in(&mut self, place: usize) -> Result<()> {
        if let Some(of) = self.ins.get_mut(place) {
            of.settle(&self.inbox);
            if place != 0 {
                self.watch.remove(of.bell.fd())?;
                self.ins.swap_remove(place);
            }
        }
        // The last ring has moved to this place.
        if self.current == place || self.current >= self.ins.len() {
            (self.current, self.budget) = (0, 0);
        }
        Ok(())
    }
}
