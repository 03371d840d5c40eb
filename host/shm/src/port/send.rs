//! Sending: the ring of a frame, and the handling of full rings.
//!
//! Frames to groups and unknown stations go to the switch. The wait for a full ring is bounded;
//! before it, all frames from other ports are taken out of their rings, so that two ports never
//! wait for each other. While an edge is being opened its frames are held.

use std::time::{Duration, Instant};

use netloom_bridge::{Destination, LONGEST_FRAME, Mac, SHORTEST_FRAME, classify, decide};
use netloom_sys::{Failure, random};

use super::frames::Frames;
use super::{Sent, SwitchPort};
use crate::inbox::Counter;
use crate::layout::HEADER;
use crate::protocol::{Direction, Message, Posted};
use crate::ring::{Outgoing, Pushed, Writer};
use crate::{Error, Result};

/// Most bytes held for an edge that is being opened: they fit the smallest ring.
const HELD: usize = 128 * 1024;

/// Longest wait for the answer to an Open before the frame is left for later.
pub(super) const ANSWER: Duration = Duration::from_millis(5);

/// Frames to stations not known here between two checks for what the switch tells of them.
const SEEK: u32 = 32;

/// Seconds until a closed edge may be requested again.
const PAUSE: u32 = 1;

/// How a frame is sent.
#[derive(Clone, Copy)]
struct How {
    /// It is published to its receiver at once.
    show: bool,
    /// Waits for room.
    waits: bool,
}

impl How {
    const SHOWN: How = How { show: true, waits: true };
}

/// The path to another port.
pub(super) enum Out {
    /// None yet.
    Closed,
    /// Requested.
    Opening(Box<Opening>),
    /// Open.
    Open(Box<Edge>),
    /// Closed by the other end, or refused, until this second.
    Blocked { until: u32 },
}

impl Out {
    /// Frames here that the receiver has not taken.
    pub(super) fn untaken(&mut self) -> u64 {
        match self {
            Out::Open(edge) => edge.ring.untaken(),
            Out::Opening(opening) => opening.held.len() as u64,
            Out::Closed | Out::Blocked { .. } => 0,
        }
    }
}

/// An edge that is being opened.
pub(super) struct Opening {
    /// The ring passed to the switch.
    pub(super) writer: Option<Writer>,
    pub(super) held: Frames,
    /// It took longer than the bound.
    late: bool,
}

impl Opening {
    pub(super) fn new(writer: Option<Writer>) -> Box<Opening> {
        Box::new(Opening { writer, held: Frames::new(HELD), late: false })
    }
}

/// An edge to another port.
pub(super) struct Edge {
    pub(super) ring: Outgoing,
    /// The generation of the other port.
    pub(super) generation: u32,
    /// It has unpublished frames.
    pub(super) dirty: bool,
}

impl SwitchPort {
    /// Sends a frame (header and frame), and publishes it to its receiver at once. May wait, at
    /// most for [`super::JoinOptions::wait`].
    ///
    /// # Errors
    /// Memory or descriptors are exhausted; the frame is lost, the port remains usable.
    #[inline]
    pub fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        self.give(frame, How::SHOWN)
    }

    /// Like [`SwitchPort::send`], but does not wait for room: without room the frame is not
    /// accepted ([`Sent::Full`]), even if the receiver has not read for long. Nothing reports when
    /// there is room again. The first frame to a port may wait for the switch, as in `send`: for
    /// some milliseconds.
    ///
    /// # Errors
    /// As [`SwitchPort::send`].
    #[inline]
    pub fn try_send(&mut self, frame: &[u8]) -> Result<Sent> {
        self.give(frame, How { waits: false, ..How::SHOWN })
    }

    /// Like [`SwitchPort::send`], but the frame may stay unpublished until [`SwitchPort::flush`].
    ///
    /// # Errors
    /// As [`SwitchPort::send`].
    #[inline]
    pub fn queue(&mut self, frame: &[u8]) -> Result<Sent> {
        self.give(frame, How { show: false, ..How::SHOWN })
    }

    /// Like [`SwitchPort::queue`], but does not wait for room, as [`SwitchPort::try_send`] does not.
    ///
    /// # Errors
    /// As [`SwitchPort::send`].
    #[inline]
    pub fn try_queue(&mut self, frame: &[u8]) -> Result<Sent> {
        self.give(frame, How { show: false, waits: false })
    }

    /// Publishes all queued frames to their receivers.
    #[inline]
    pub fn flush(&mut self) {
        while let Some(number) = self.dirty.pop() {
            self.show(number);
        }
    }

    fn show(&mut self, number: u8) {
        if let Some(Out::Open(edge)) = self.outs.get_mut(usize::from(number)) {
            edge.dirty = false;
            if edge.ring.flush() {
                self.inbox.add(Counter::Wakes, 1);
            }
        }
    }

    #[inline]
    fn give(&mut self, frame: &[u8], how: How) -> Result<Sent> {
        self.tick()?;
        // Frames are held until the answer to an Open is read.
        if self.opening != 0 {
            self.messages()?;
        }
        self.look_at_rules();
        let number = match self.route(frame) {
            Ok(0) if is_for_one(frame) => self.seek(frame)?,
            Ok(number) => number,
            Err(cause) => {
                self.count(cause);
                return Ok(Sent::Refused);
            }
        };
        if let Some(Out::Open(edge)) = self.outs.get_mut(usize::from(number))
            && edge.ring.queue(0, frame) == Pushed::Done
        {
            if how.show {
                if edge.ring.flush() {
                    self.inbox.add(Counter::Wakes, 1);
                }
            } else if !edge.dirty {
                edge.dirty = true;
                self.dirty.push(number);
            } else if edge.ring.unpublished() * 2 >= self.options.arena as u64 && edge.ring.flush()
            {
                // Half an arena at once: the reader empties it while the rest is filled.
                self.inbox.add(Counter::Wakes, 1);
            }
            self.was_sent(number, frame);
            return Ok(Sent::Done);
        }
        self.give_slowly(number, frame, how.waits)
    }

    #[inline]
    fn was_sent(&mut self, number: u8, frame: &[u8]) {
        // The header's second byte holds the super-frame type.
        let bytes = frame.len().saturating_sub(HEADER);
        self.sent.add(bytes, frame.get(1).is_some_and(|kind| *kind != 0));
        self.flooded += u64::from(number == 0);
        if !self.rules.plain {
            self.copy_sent(number, frame);
        }
    }

    /// The port that a frame goes to; 0 for all. Or its drop counter.
    #[inline]
    fn route(&mut self, frame: &[u8]) -> Result<u8, Counter> {
        let body = frame.get(HEADER..).ok_or(Counter::DroppedRunt)?;
        let destination = Mac::destination(body).ok_or(Counter::DroppedRunt)?;
        let vid = if self.rules.plain {
            match body.len() {
                ..SHORTEST_FRAME => return Err(Counter::DroppedRunt),
                SHORTEST_FRAME..=LONGEST_FRAME => None,
                _ => return Err(Counter::DroppedOversize),
            }
        } else {
            classify(&self.rules.switch, self.number.into(), body).map_err(Counter::from)?.vid
        };
        if destination.is_group() {
            return match decide(destination) {
                Destination::Reserved(_) => Err(Counter::DroppedReserved),
                _ => Ok(0),
            };
        }
        let found = self.stations.find(vid, destination);
        Ok(found.and_then(|port| u8::try_from(port).ok()).unwrap_or(0))
    }

    /// The port of a station that is not known here, if the switch has told of it meanwhile; else 0.
    #[cold]
    fn seek(&mut self, frame: &[u8]) -> Result<u8> {
        self.sought = self.sought.wrapping_add(1);
        if !self.sought.is_multiple_of(SEEK) && !self.control.is_due_now() {
            return Ok(0);
        }
        self.messages()?;
        Ok(self.route(frame).unwrap_or(0))
    }

    /// The path without room, or without a ring.
    #[cold]
    fn give_slowly(&mut self, number: u8, frame: &[u8], waits: bool) -> Result<Sent> {
        if self.is_gone() {
            return Ok(Sent::Gone);
        }
        match self.outs.get_mut(usize::from(number)) {
            None => Ok(Sent::Refused),
            Some(Out::Open(_)) => self.give_waiting(number, frame, waits),
            Some(Out::Opening(opening)) => {
                // The switch had no room for the question.
                if opening.writer.is_none() && self.control.is_due_now() {
                    self.ask(number)?;
                }
                self.hold(number, frame, waits)
            }
            Some(Out::Blocked { until }) if self.stations.now() < *until => {
                self.count(Counter::DroppedStalled);
                Ok(Sent::Stalled)
            }
            Some(Out::Closed | Out::Blocked { .. }) => {
                self.open(number)?;
                let sent = self.hold(number, frame, waits)?;
                // Nothing may stay unsent by a user that sends one frame and sleeps.
                self.await_answers(ANSWER, |port| port.is_opening(number))?;
                Ok(sent)
            }
        }
    }

    fn is_opening(&self, number: u8) -> bool {
        matches!(self.outs.get(usize::from(number)), Some(Out::Opening(_)))
    }

    /// Carries out the switch's messages while something `is_missing`, for at most `most`.
    pub(super) fn await_answers(
        &mut self,
        most: Duration,
        is_missing: impl Fn(&SwitchPort) -> bool,
    ) -> Result<()> {
        let end = Instant::now() + most;
        while is_missing(self) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.control.wait(left)? {
                break;
            }
            self.messages()?;
        }
        Ok(())
    }

    fn give_waiting(&mut self, number: u8, frame: &[u8], waits: bool) -> Result<Sent> {
        let stalled = match self.outs.get(usize::from(number)) {
            Some(Out::Open(edge)) => edge.ring.is_stalled(),
            _ => true,
        };
        if waits && !stalled {
            self.count(Counter::Waits);
            self.show(number);
            self.take_early()?;
        }
        let Some(Out::Open(edge)) = self.outs.get_mut(usize::from(number)) else {
            return Ok(Sent::Stalled);
        };
        let pushed = match waits {
            true => edge.ring.queue_wait(0, frame, self.options.wait),
            false => edge.ring.queue(0, frame),
        };
        match pushed {
            Pushed::Done => {
                self.show(number);
                self.was_sent(number, frame);
                Ok(Sent::Done)
            }
            Pushed::Full if !waits => {
                // Frames queued before must be published, or there is never room.
                self.show(number);
                Ok(Sent::Full)
            }
            Pushed::Full => {
                self.count(Counter::DroppedStalled);
                Ok(Sent::Stalled)
            }
            // Only longer ones come here: `route` has refused shorter ones.
            Pushed::Refused => {
                self.count(Counter::DroppedOversize);
                Ok(Sent::Refused)
            }
            Pushed::Corrupt => {
                self.count(Counter::CorruptEdges);
                self.count(Counter::DroppedStalled);
                self.close_out(number);
                Ok(Sent::Stalled)
            }
        }
    }

    /// Keeps a frame until its edge is open; waits for that, bounded, if too much is kept.
    fn hold(&mut self, number: u8, frame: &[u8], waits: bool) -> Result<Sent> {
        let end = Instant::now() + self.options.wait;
        loop {
            let Some(Out::Opening(opening)) = self.outs.get_mut(usize::from(number)) else {
                // The edge was opened, or refused.
                return match self.outs.get(usize::from(number)) {
                    Some(Out::Open(_)) => self.give_waiting(number, frame, waits),
                    _ => {
                        self.count(Counter::DroppedStalled);
                        Ok(Sent::Stalled)
                    }
                };
            };
            if opening.held.push(0, frame, &[]).is_some() {
                return Ok(Sent::Done);
            }
            if !waits {
                return Ok(Sent::Full);
            }
            let left = end.saturating_duration_since(Instant::now());
            if opening.late || left.is_zero() || !self.control.wait(left)? {
                if let Some(Out::Opening(opening)) = self.outs.get_mut(usize::from(number)) {
                    opening.late = true;
                }
                self.count(Counter::DroppedStalled);
                return Ok(Sent::Stalled);
            }
            self.messages()?;
        }
    }

    /// Asks the switch for an edge to a port.
    pub(super) fn open(&mut self, number: u8) -> Result<()> {
        // Frames to this port through the switch come first.
        self.show(0);
        if let Some(out) = self.outs.get_mut(usize::from(number)) {
            *out = Out::Opening(Opening::new(None));
            self.opening += 1;
        }
        let asked = self.ask(number);
        if asked.is_err() {
            // Nobody would ask for it again, and its frames would wait for ever.
            self.lose_out(number, Out::Blocked { until: self.stations.now() + PAUSE });
        }
        asked
    }

    /// Passes the ring of an edge being opened to the switch; later, if that is impossible now.
    pub(super) fn ask(&mut self, number: u8) -> Result<()> {
        let Some(Out::Opening(opening)) = self.outs.get_mut(usize::from(number)) else {
            return Ok(());
        };
        if let (None, Some(channel)) = (&opening.writer, self.control.channel()) {
            let writer = Writer::create(self.options.arena, generation()?)?;
            if channel.send(&Message::Open { to: number }, &[writer.fd()])? == Posted::Done {
                opening.writer = Some(writer);
            }
        }
        Ok(())
    }

    /// The edge is open: held frames go first.
    pub(super) fn opened(&mut self, number: u8, ring: Outgoing, generation: u32) {
        let Some(out) = self.outs.get_mut(usize::from(number)) else { return };
        let edge = Box::new(Edge { ring, generation, dirty: false });
        let Out::Opening(mut opening) = std::mem::replace(out, Out::Open(edge)) else { return };
        // The uplink is not among those counted.
        self.opening = self.opening.saturating_sub(u32::from(number != 0));
        while let Some((origin, frame)) = opening.held.first() {
            if let Some(Out::Open(edge)) = self.outs.get_mut(usize::from(number))
                && edge.ring.queue(origin, frame) == Pushed::Done
            {
                // A copy was counted when it was held.
                if origin == 0 {
                    self.was_sent(number, frame);
                }
            } else {
                self.count(Counter::DroppedFull);
            }
            opening.held.pop();
        }
        self.show(number);
    }

    /// Gives up an edge; frames held for it are lost.
    pub(super) fn lose_out(&mut self, number: u8, becomes: Out) {
        let Some(out) = self.outs.get_mut(usize::from(number)) else { return };
        if let Out::Opening(opening) = std::mem::replace(out, becomes) {
            self.opening = self.opening.saturating_sub(1);
            self.inbox.add(Counter::DroppedGone, opening.held.len() as u64);
        }
    }

    /// Closes an edge whose other end is invalid.
    pub(super) fn close_out(&mut self, number: u8) {
        self.lose_out(number, Out::Blocked { until: self.stations.now() + PAUSE });
        self.tell_closed(number, Direction::Out);
    }

    /// Handles an edge closed by the other end.
    pub(super) fn closed_out(&mut self, number: u8) {
        if matches!(self.outs.get(usize::from(number)), Some(Out::Open(_))) {
            self.lose_out(number, Out::Blocked { until: self.stations.now() + PAUSE });
        }
    }

    /// A copy for a mirror port: no wait, and lost if there is no room.
    pub(super) fn give_copy(&mut self, to: u8, origin: u16, header: &[u8; HEADER], frame: &[u8]) {
        if matches!(self.outs.get(usize::from(to)), Some(Out::Closed)) && self.open(to).is_err() {
            return;
        }
        let done = match self.outs.get_mut(usize::from(to)) {
            Some(Out::Open(edge)) => {
                let done = edge.ring.queue_parts(origin, header, frame) == Pushed::Done;
                if edge.ring.flush() {
                    self.inbox.add(Counter::Wakes, 1);
                }
                done
            }
            Some(Out::Opening(opening)) => opening.held.push(origin, header, frame).is_some(),
            _ => false,
        };
        self.count(if done { Counter::Mirrored } else { Counter::DroppedFull });
    }
}

/// Whether a frame is for one station.
#[inline]
fn is_for_one(frame: &[u8]) -> bool {
    frame.get(HEADER).is_some_and(|first| first & 1 == 0)
}

/// A ring's generation: unique across all processes, except for one chance in 2^32.
pub(super) fn generation() -> Result<u32> {
    // 0 says that no ring is read.
    Ok(u32::from_ne_bytes(random::array().map_err(no_chance)?).max(1))
}

/// What a port's table of addresses is scattered by.
pub(super) fn seed() -> Result<u64> {
    random::number().map_err(no_chance)
}

fn no_chance(source: rustix::io::Errno) -> Error {
    Failure::new("port", "ask for random bytes", source).into()
}
