//! Sending frames that the kernel makes: at top speed, or a tenth of a second's worth at a time.
//!
//! A call takes the kernel some milliseconds to prepare and to clean up after, so calls are long.

use std::sync::atomic::{AtomicBool, Ordering};

use netloom_ebpf::generate::{Frames, LONGEST, LiveFrames, MOST_LENGTHS, Pass};
use netloom_traffic::{FCS, Frame, Rate, Schedule};

use crate::clock::Clock;
use crate::far::Reached;
use crate::generator::Spec;
use crate::report::{Pacing, SendReport, UsedEngine, a_second};
use crate::{Error, Result};

/// Frames of the first call at top speed; later ones grow.
const FIRST: u64 = 1 << 16;
/// The most frames of one call.
const MOST: u64 = 1 << 26;
/// How long a call at top speed should take: it cannot be stopped but by a signal.
const LONG: u64 = 400_000_000;
/// Calls a second when there is a pace.
const CALLS: f64 = 10.0;

/// Frames made in the kernel for one interface.
#[derive(Debug)]
pub(crate) struct Live {
    index: u32,
    frames: LiveFrames,
    /// Whether nobody saw to the other end.
    unsure: bool,
    _far: Option<Pass>,
}

impl Live {
    /// Whether such frames can be made that way.
    pub(crate) fn can(spec: &Spec) -> bool {
        spec.longest() <= LONGEST
            && usize::try_from(spec.sizes.cycle()).is_ok_and(|cycle| cycle <= MOST_LENGTHS)
    }

    pub(crate) fn open(index: u32, spec: &Spec, frame: &Frame, far: Reached) -> Result<Live> {
        if !Live::can(spec) {
            let reason = format!("frames of at most {LONGEST} bytes in {MOST_LENGTHS} sizes");
            return Err(Error::Engine { engine: "live-frames", reason });
        }
        let cycle = u64::from(spec.sizes.cycle());
        let lengths: Vec<u32> = (0..cycle).map(|n| spec.sizes.at(n) - FCS).collect();
        let (flows, clock_every) = (spec.flows.count(), spec.batch.1);
        let frames = Frames { head: &frame.head(), lengths: &lengths, flows, clock_every };
        let frames = LiveFrames::open(index, &frames)?;
        let unsure = matches!(far, Reached::Elsewhere);
        let far = if let Reached::Ready(pass) = far { pass } else { None };
        Ok(Live { index, frames, unsure, _far: far })
    }

    pub(crate) fn run(&mut self, spec: &Spec, stop: &AtomicBool) -> Result<SendReport> {
        let before = self.frames.tally();
        let (mut clock, mut schedule) = (Clock::new(), Schedule::new(spec.rate));
        let (mut most, end) = (a_call(spec), spec.end());
        let paced = spec.rate != Rate::Max;
        let start = Clock::now();
        while !stop.load(Ordering::Relaxed) {
            let left = spec.left(self.frames.tally().made - before.made);
            let due = if paced { schedule.due() } else { Clock::now() - start };
            if left == 0 || due >= end || spec.is_over(Clock::now() - start) {
                break;
            }
            if paced && clock.wait(start + due, stop).is_none() {
                break;
            }
            let count = within(&schedule, spec, most.min(left), end);
            let before = Clock::now();
            let sent = self.frames.send(count, spec.batch.0)?;
            let took = Clock::now() - before;
            if !paced && due.saturating_add(took) < end {
                most = next_call(count, took, (end - due - took).min(LONG));
            }
            if self.unsure && sent.taken == 0 && sent.made > 0 {
                return Err(Error::FarEnd { index: self.index });
            }
            schedule.skip(sent.made, sent.bytes + sent.made * u64::from(FCS));
        }
        let elapsed_ns = Clock::now() - start;
        let after = self.frames.tally();
        let made = after.made - before.made;
        let bytes = after.bytes - before.bytes + made * u64::from(FCS);
        let frames_sent = after.taken - before.taken;
        Ok(SendReport {
            engine: UsedEngine::LiveFrames,
            stream: spec.stream,
            frames_sent,
            frames_refused: after.refused - before.refused,
            bytes_offered: bytes,
            elapsed_ns,
            packets_per_second: a_second(frames_sent, elapsed_ns),
            bits_per_second: a_second(bytes.saturating_mul(8), elapsed_ns),
            pacing: Pacing::of(&clock.errors),
        })
    }
}

/// Frames of the next call, which is to take `aim` nanoseconds, after one of `count` that took so long:
/// at most four times as many.
fn next_call(count: u64, took: u64, aim: u64) -> u64 {
    let frames = u128::from(count) * u128::from(aim) / u128::from(took.max(1));
    let frames = u64::try_from(frames).unwrap_or(MOST);
    frames.clamp(FIRST, count.saturating_mul(4).max(FIRST)).min(MOST)
}

/// Frames of one call.
fn a_call(spec: &Spec) -> u64 {
    let cycle = u64::from(spec.sizes.cycle());
    let bytes: u64 = (0..cycle).map(|n| u64::from(spec.sizes.at(n))).sum();
    let frames = match spec.rate {
        Rate::Max => return FIRST,
        Rate::Packets(rate) => rate / CALLS,
        Rate::Bits(rate) => rate / CALLS / (8.0 * bytes as f64 / cycle as f64),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "1 to 2^26 after clamping"
    )]
    let frames = frames.clamp(1.0, MOST as f64) as u64;
    frames
}

/// Of `count` frames, those that are due before the end: at least one.
fn within(schedule: &Schedule, spec: &Spec, count: u64, end: u64) -> u64 {
    let due_of = |frames: u64| {
        let mut ahead = *schedule;
        // By packets this is exact; by bits frames are taken for the smallest, and at most the last
        // call has some that are due after the end.
        ahead.skip(frames, frames * u64::from(spec.sizes.least()));
        ahead.due()
    };
    if spec.duration.is_none() || due_of(count - 1) < end {
        return count;
    }
    let (mut low, mut high) = (1, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if due_of(middle) < end { low = middle + 1 } else { high = middle }
    }
    low
}
