//! Sends frames generated in the kernel: at top speed, or 50 µs of the schedule at a time.
//!
//! At top speed calls are long. With a pace, each call starts at its first frame's time and sends what is due
//! within [`SPAN`]; if calls take longer, the next call also sends what has become due.

use std::sync::atomic::{AtomicBool, Ordering};

use netloom_ebpf::generate::{Frames, LONGEST, LiveFrames, MOST_LENGTHS, Pass};
use netloom_traffic::{FCS, Frame, Rate, Schedule};

use crate::clock::Clock;
use crate::far::Reached;
use crate::priority::Priority;
use crate::report::{Pacing, SendReport, UsedEngine, a_second};
use crate::spec::Spec;
use crate::{Error, Result};

/// Frames of the first call at top speed; later calls grow.
const FIRST: u64 = 1 << 16;
/// Maximum frames per call.
const MOST: u64 = 1 << 26;
/// Target duration of a call at top speed: only a signal can stop it.
const LONG: u64 = 400_000_000;
/// Nanoseconds of the schedule that one call covers when there is a pace.
const SPAN: u64 = 50_000;
/// Upper bound of that span when calls take long.
const MOST_SPAN: u64 = 100_000_000;

/// Frames generated in the kernel for one interface.
#[derive(Debug)]
pub(crate) struct Live {
    index: u32,
    frames: LiveFrames,
    /// Whether the peer could not be checked.
    unsure: bool,
    _far: Option<Pass>,
}

impl Live {
    /// Whether this engine can send such frames.
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
        let (mut most, end) = (FIRST, spec.end());
        let paced = spec.rate != Rate::Max;
        let (eager, mut longest) = (paced.then(Priority::new), 0);
        let start = Clock::now();
        while !stop.load(Ordering::Relaxed) {
            let left = spec.left(self.frames.tally().made - before.made);
            let due = if paced { schedule.due() } else { Clock::now() - start };
            if left == 0 || due >= end || spec.is_over(Clock::now() - start) {
                break;
            }
            let count = if paced {
                let Some(now) = clock.wait(start + due, stop) else { break };
                let late = (now - start - due).min(MOST_SPAN);
                within(&schedule, spec, MOST.min(left), end.min(due + late + SPAN))
            } else {
                most.min(left)
            };
            let before = Clock::now();
            let sent = self.frames.send(count, spec.batch.0)?;
            let took = Clock::now() - before;
            if !paced && due.saturating_add(took) < end {
                most = next_call(count, took, (end - due - took).min(LONG));
            }
            // A veth takes XDP frames only while NAPI runs
            // at its peer, which a program there turns on.
            if self.unsure && sent.taken == 0 && sent.made > 0 {
                return Err(Error::FarEnd { index: self.index });
            }
            // Rates count the check sequence, which frames in the kernel do not have.
            schedule.skip(sent.made, sent.bytes + sent.made * u64::from(FCS));
            if paced {
                longest = longest.max(schedule.due() - due);
            }
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
            pacing: Pacing::of(&clock, None).map(|pacing| Pacing {
                call_ns: longest,
                preferred: eager.is_some_and(|eager| eager.is_raised()),
                ..pacing
            }),
        })
    }
}

/// Frames for the next call so that it takes `aim` nanoseconds, given that `count` frames took `took`; at
/// most four times as many.
fn next_call(count: u64, took: u64, aim: u64) -> u64 {
    let frames = u128::from(count) * u128::from(aim) / u128::from(took.max(1));
    let frames = u64::try_from(frames).unwrap_or(MOST);
    frames.clamp(FIRST, count.saturating_mul(4).max(FIRST)).min(MOST)
}

/// Number of frames, from 1 to `count`, due before a time.
fn within(schedule: &Schedule, spec: &Spec, count: u64, end: u64) -> u64 {
    let due_of = |frames: u64| {
        let mut ahead = *schedule;
        // Exact for packet rates. For bit rates all frames count as the smallest, so at most the last call
        // contains some that are due after the end.
        ahead.skip(frames, frames * u64::from(spec.sizes.least()));
        ahead.due()
    };
    // After `n` frames the schedule stands at frame `n + 1`: this is when the last one is due.
    if due_of(count - 1) < end {
        return count;
    }
    let (mut low, mut high) = (1, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if due_of(middle) < end { low = middle + 1 } else { high = middle }
    }
    low
}
