//! The direction from the interface to the switch.
//!
//! A frame that finds no room in the switch waits in place, and nothing more is taken from the interface,
//! whose queue then fills. After [`PATIENCE`] it is dropped, and so are later frames at once, until one finds
//! room again. A truncated frame is never forwarded. From a card, TCP segments that have arrived one behind the
//! other may be merged into super-frames; none waits for one that has not arrived.

use std::time::{Duration, Instant};

use netloom_packet::merge::{Merger, Offered};
use netloom_port::{Lent, MOST_FRAME, Port, Received};

use crate::burst::{BURST, BURST_BYTES, End, Moved};
use crate::counters::Counters;
use crate::{Given, Member, Result};

/// How long a frame waits for room, as at a switch port.
const PATIENCE: Duration = Duration::from_millis(100);

/// State of this direction.
pub(crate) struct Inward {
    /// For ports that only copy.
    buffer: Vec<u8>,
    /// The frame in the buffer that waits for room.
    held: Option<(usize, usize)>,
    /// Since when frames find no room.
    full: Option<Instant>,
    waits: bool,
    /// Merges segments, if that is wanted.
    merger: Option<Merger>,
}

/// Result of handling a frame.
enum Step {
    /// Finished; its length.
    Over(usize),
    /// It waits for room.
    Waits,
    /// There is no frame.
    Empty,
}

impl Inward {
    pub(crate) fn new() -> Inward {
        Inward { buffer: vec![0; MOST_FRAME], held: None, full: None, waits: false, merger: None }
    }

    /// Merges segments from now on.
    pub(crate) fn merge(&mut self) {
        self.merger = Some(Merger::new());
    }

    /// Whether a frame waits for room.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Carries a burst.
    pub(crate) fn carry(
        &mut self,
        port: &mut dyn Port,
        member: &mut dyn Member,
        counters: &mut Counters,
    ) -> Result<Moved> {
        let (mut moved, mut bytes) = (Moved::default(), 0);
        self.waits = false;
        while moved.frames < BURST && bytes < BURST_BYTES && moved.end.is_none() {
            match self.step(port, member, counters, &mut moved.end)? {
                Step::Over(length) => {
                    moved.frames += 1;
                    bytes += length;
                }
                Step::Waits => {
                    self.waits = true;
                    break;
                }
                Step::Empty => break,
            }
        }
        if moved.frames > 0 {
            member.flush();
        }
        Ok(moved)
    }

    fn step(
        &mut self,
        port: &mut dyn Port,
        member: &mut dyn Member,
        counters: &mut Counters,
        end: &mut Option<End>,
    ) -> Result<Step> {
        if self.held.is_none()
            && let Some(step) = self.next(port, member, counters, end)?
        {
            return Ok(step);
        }
        let Some((start, length)) = self.held else { return Ok(Step::Empty) };
        // Moved out for now: the frame borrows the buffer while the rest of `self` is modified.
        let buffer = std::mem::take(&mut self.buffer);
        let frame = &buffer[start..start + length];
        let step = member.queue(frame).map(|given| self.note(given, frame, counters, end));
        self.buffer = buffer;
        if !matches!(step, Ok(Step::Waits)) {
            self.held = None;
        }
        step
    }

    /// Handles the next frame in place, or copies it into the buffer and returns `None`.
    fn next(
        &mut self,
        port: &mut dyn Port,
        member: &mut dyn Member,
        counters: &mut Counters,
        end: &mut Option<End>,
    ) -> Result<Option<Step>> {
        if let Lent::Frame(frame) = port.lend() {
            match self.merger.as_mut().map_or(Offered::Alone, |merger| merger.offer(frame)) {
                Offered::Kept => {
                    let length = frame.len();
                    port.give_back();
                    return Ok(Some(Step::Over(length)));
                }
                Offered::Apart => return self.pass_merged(member, counters, end),
                Offered::Alone => {}
            }
            let given = member.queue(frame)?;
            let step = self.note(given, frame, counters, end);
            // A frame that waits stays lent: the port shows the same one next time.
            if matches!(step, Step::Over(_)) {
                port.give_back();
            }
            return Ok(Some(step));
        }
        // Merged frames come first.
        if let Some(step) = self.pass_merged(member, counters, end)? {
            return Ok(Some(step));
        }
        match port.lend() {
            // One came meanwhile.
            Lent::Frame(_) => Ok(Some(Step::Over(0))),
            Lent::Truncated => {
                counters.lost.truncated += 1;
                port.give_back();
                Ok(Some(Step::Over(0)))
            }
            Lent::Empty => Ok(Some(Step::Empty)),
            Lent::Never => Ok(self.copy(port, counters, end)),
        }
    }

    /// Passes on what is merged, if anything is. Its segments were counted in the burst already.
    fn pass_merged(
        &mut self,
        member: &mut dyn Member,
        counters: &mut Counters,
        end: &mut Option<End>,
    ) -> Result<Option<Step>> {
        let Some(mut merger) = self.merger.take() else { return Ok(None) };
        let step = match merger.held() {
            Some(frame) => {
                member.queue(frame).map(|given| Some(self.note(given, frame, counters, end)))
            }
            None => Ok(None),
        };
        let step = step.map(|step| {
            step.map(|step| match step {
                Step::Over(_) => {
                    merger.clear();
                    Step::Over(0)
                }
                other => other,
            })
        });
        // Also after an error: what is merged is not lost with it.
        self.merger = Some(merger);
        step
    }

    /// Copies the next frame into the buffer, or returns why there is none.
    fn copy(
        &mut self,
        port: &mut dyn Port,
        counters: &mut Counters,
        end: &mut Option<End>,
    ) -> Option<Step> {
        match port.receive(&mut self.buffer) {
            Ok(Received::Frame { start, length }) => {
                self.held = Some((start, length));
                None
            }
            Ok(Received::Truncated) => {
                counters.lost.truncated += 1;
                Some(Step::Over(0))
            }
            Ok(Received::Empty | Received::Down) => Some(Step::Empty),
            Ok(Received::Gone) => {
                *end = Some(End::InterfaceGone);
                Some(Step::Empty)
            }
            Err(_) => {
                counters.failures += 1;
                Some(Step::Empty)
            }
        }
    }

    fn note(
        &mut self,
        given: Given,
        frame: &[u8],
        counters: &mut Counters,
        end: &mut Option<End>,
    ) -> Step {
        match given {
            Given::Done => {
                self.full = None;
                counters.to_switch.count(frame);
            }
            Given::Full => {
                let now = Instant::now();
                if now.duration_since(*self.full.get_or_insert(now)) < PATIENCE {
                    return Step::Waits;
                }
                counters.lost.stalled += 1;
            }
            Given::Stalled => counters.lost.stalled += 1,
            Given::Refused => counters.lost.refused_by_switch += 1,
            Given::Gone => *end = Some(End::SwitchGone),
        }
        Step::Over(frame.len())
    }
}
