//! The direction from the switch to the interface.
//!
//! A frame that the interface does not take now waits, and nothing more is taken from the switch, which puts
//! back-pressure on its senders. After its patience it is dropped, and so are later frames at once, until one
//! is taken again: a stalled card must not block others.

use std::time::{Duration, Instant};

use netloom_port::{MOST_FRAME, Port, Sent};

use crate::burst::{BURST, BURST_BYTES, End, Moved};
use crate::counters::Counters;
use crate::{Member, Result, Taken};

/// How long a frame waits for room, unless it is told otherwise.
const PATIENCE: Duration = Duration::from_millis(2);

/// State of this direction.
pub(crate) struct Outward {
    buffer: Vec<u8>,
    /// The frame in the buffer that waits for room.
    held: Option<(usize, usize)>,
    /// Since when frames find no room.
    full: Option<Instant>,
    /// Whether the port has taken frames that it could not send yet.
    unsent: bool,
    patience: Duration,
}

impl Outward {
    pub(crate) fn new() -> Outward {
        Outward {
            buffer: vec![0; MOST_FRAME],
            held: None,
            full: None,
            unsent: false,
            patience: PATIENCE,
        }
    }

    /// Sets how long a frame waits for room.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Whether a frame waits for the port to be writable.
    pub(crate) fn waits(&self) -> bool {
        self.held.is_some()
    }

    /// Whether the port needs another flush.
    pub(crate) fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// Carries a burst.
    pub(crate) fn carry(
        &mut self,
        port: &mut dyn Port,
        member: &mut dyn Member,
        counters: &mut Counters,
    ) -> Result<Moved> {
        let (mut moved, mut bytes) = (Moved::default(), 0);
        while moved.frames < BURST && bytes < BURST_BYTES && moved.end.is_none() {
            if self.held.is_none() {
                match member.receive(&mut self.buffer)? {
                    Taken::Frame { start, length } => self.held = Some((start, length)),
                    Taken::Truncated => {
                        counters.lost.oversize += 1;
                        moved.frames += 1;
                        continue;
                    }
                    Taken::Empty => break,
                    Taken::Gone => {
                        moved.end = Some(End::SwitchGone);
                        break;
                    }
                }
            }
            let Some(length) = self.send(port, counters, &mut moved.end) else { break };
            moved.frames += 1;
            bytes += length;
        }
        if moved.frames > 0 || self.unsent {
            self.flush(port, counters, &mut moved.end);
        }
        Ok(moved)
    }

    /// Offers the held frame to the port; returns its length if the frame is finished.
    fn send(
        &mut self,
        port: &mut dyn Port,
        counters: &mut Counters,
        end: &mut Option<End>,
    ) -> Option<usize> {
        let (start, length) = self.held?;
        // Out of `self`, which `flush` changes while the frame is still looked at.
        let buffer = std::mem::take(&mut self.buffer);
        let frame = &buffer[start..start + length];
        let mut sent = port.queue(frame);
        if matches!(sent, Ok(Sent::Full)) {
            // The frames taken so far may be all that is in the way.
            self.flush(port, counters, end);
            sent = port.queue(frame);
        }
        let over = self.note(&sent, frame, counters, end);
        self.buffer = buffer;
        if !over {
            return None;
        }
        self.held = None;
        Some(length)
    }

    fn note(
        &mut self,
        sent: &netloom_port::Result<Sent>,
        frame: &[u8],
        counters: &mut Counters,
        end: &mut Option<End>,
    ) -> bool {
        match sent {
            Ok(Sent::Done) => {
                self.full = None;
                counters.to_interface.count(frame);
            }
            Ok(Sent::Full) => {
                let now = Instant::now();
                if now.duration_since(*self.full.get_or_insert(now)) < self.patience {
                    return false;
                }
                counters.lost.no_room += 1;
            }
            Ok(Sent::NoRoom) => counters.lost.no_room += 1,
            Ok(Sent::Refused) => counters.lost.refused += 1,
            Ok(Sent::Down) => counters.lost.down += 1,
            Ok(Sent::Gone) => *end = Some(End::InterfaceGone),
            Err(_) => counters.failures += 1,
        }
        true
    }

    fn flush(&mut self, port: &mut dyn Port, counters: &mut Counters, end: &mut Option<End>) {
        self.unsent = false;
        match port.flush() {
            Ok(flushed) => {
                counters.lost.unsent += flushed.lost;
                self.unsent = flushed.sent == Sent::Full;
                if flushed.sent == Sent::Gone {
                    *end = Some(End::InterfaceGone);
                }
            }
            Err(_) => counters.failures += 1,
        }
    }
}
