//! What a run came to, for people and programs. Units stand in the names; bytes have the check sequence.

use netloom_traffic::{Histogram, Stream};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// The engine that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UsedEngine {
    /// Frames made in the kernel.
    LiveFrames,
    /// A packet socket's ring.
    Ring,
    /// A switch in shared memory.
    Shm,
}

/// How exactly frames left, in nanoseconds. A departure is the moment before the call that gives frames to
/// the interface, seen by CLOCK_MONOTONIC; none is before its time.
///
/// At a rate the first figures are of the plan and `behind` are of the schedule: a sender that was
/// interrupted, which makes one frame late, goes on with the gaps that were asked for instead of a burst,
/// each shorter by a twentieth until what was lost is made up. In a replay, and for frames made in the kernel,
/// the plan is the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pacing {
    /// Calls that were measured: frames, but for frames made in the kernel, where each is for many.
    pub departures: u64,
    /// Half were not later than this.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// Those more than a microsecond late.
    pub late: u64,
    /// Of these, those for which the sender waited and was interrupted; the others were late because what
    /// was sent before took longer.
    pub late_interrupted: u64,
    /// How often the sender was interrupted for more than a microsecond while it waited: by the kernel's timer,
    /// by other work on its processor, by a hypervisor.
    pub interruptions: u64,
    /// For how long in all.
    pub interrupted_ns: u64,
    /// Half of the frames were not farther behind the schedule than this.
    pub behind_p50_ns: u64,
    /// 99 of 100.
    pub behind_p99_ns: u64,
    /// The farthest.
    pub behind_max_ns: u64,
    /// The longest time of which one call made the frames: so much too early its last frame may have left.
    /// 0 where each frame has a call.
    pub call_ns: u64,
    /// Whether the sending thread was preferred to others, which takes the right to.
    pub preferred: bool,
}

impl Pacing {
    /// `None` when nothing was paced. `behind` of the schedule, where that is not the plan.
    pub(crate) fn of(clock: &Clock, behind: Option<&Histogram>) -> Option<Pacing> {
        let errors = &clock.errors;
        let behind = behind.unwrap_or(errors);
        (errors.count() > 0).then(|| Pacing {
            departures: errors.count(),
            p50_ns: errors.percentile(500_000),
            p99_ns: errors.percentile(990_000),
            max_ns: errors.most(),
            mean_ns: errors.mean(),
            late: clock.late.0,
            late_interrupted: clock.late.1,
            interruptions: clock.interruptions.0,
            interrupted_ns: clock.interruptions.1,
            behind_p50_ns: behind.percentile(500_000),
            behind_p99_ns: behind.percentile(990_000),
            behind_max_ns: behind.most(),
            call_ns: 0,
            preferred: false,
        })
    }
}

/// What a generator sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendReport {
    /// By which way.
    pub engine: UsedEngine,
    /// The stream's number.
    pub stream: u16,
    /// Frames that the interface has taken.
    pub frames_sent: u64,
    /// Frames that it has not: they have numbers, and are missing at the receiver.
    pub frames_refused: u64,
    /// Bytes of both.
    pub bytes_offered: u64,
    /// From the first frame's time to the end.
    pub elapsed_ns: u64,
    /// Frames sent a second.
    pub packets_per_second: f64,
    /// Bits of all frames offered, a second.
    pub bits_per_second: f64,
    /// How exact; none at top speed.
    pub pacing: Option<Pacing>,
}

/// A count for each second of so many nanoseconds.
pub(crate) fn a_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

/// Frames of a file that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Longer than the interface takes.
    pub frames_too_long: u64,
    /// Shorter than an Ethernet header.
    pub frames_too_short: u64,
    /// Not all of the frame is in the file.
    pub frames_truncated: u64,
    /// From an interface whose frames are not Ethernet's.
    pub frames_not_ethernet: u64,
}

impl Skipped {
    pub(crate) fn add(&mut self, other: &Skipped) {
        self.frames_too_long += other.frames_too_long;
        self.frames_too_short += other.frames_too_short;
        self.frames_truncated += other.frames_truncated;
        self.frames_not_ethernet += other.frames_not_ethernet;
    }
}

/// What a replay sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// By which way.
    pub engine: UsedEngine,
    /// Frames that the interface has taken.
    pub frames_sent: u64,
    /// Frames that it has not.
    pub frames_refused: u64,
    /// Frames that were not given to it.
    pub skipped: Skipped,
    /// Frames that stand in the file behind newer ones and were sent by their time all the same.
    #[serde(default)]
    pub frames_put_in_order: u64,
    /// Frames that were recorded before one that was sent before them: sent without a gap. Where the
    /// file's own times count these are farther back than is looked ahead.
    pub frames_back_in_time: u64,
    /// Gaps that were cut because they are longer than asked for, and jumps back of time that are.
    #[serde(default)]
    pub gaps_cut: u64,
    /// Bytes of the frames sent and refused.
    pub bytes_offered: u64,
    /// How often the file was played to its end.
    pub rounds: u64,
    /// From the first frame's time to the end.
    pub elapsed_ns: u64,
    /// Frames sent a second.
    pub packets_per_second: f64,
    /// How exact; none at top speed.
    pub pacing: Option<Pacing>,
}

/// What a receiver found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveReport {
    /// By stream.
    pub streams: Vec<StreamReport>,
    /// Frames without a stamp.
    pub frames_foreign: u64,
    /// Frames of more streams than are told apart.
    pub frames_untold: u64,
    /// Frames that this receiver was too slow for: they are lost of some stream, here and not on the way.
    pub frames_dropped_here: u64,
    /// From the first stamped frame to the last, by their arrival.
    pub span_ns: u64,
    /// Whether it ended because the interface was gone.
    pub interface_gone: bool,
}

/// What was found of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Its number.
    pub stream: u16,
    /// Frames that came for the first time.
    pub frames_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Frames that have not come.
    pub frames_lost: u64,
    /// Copies.
    pub frames_duplicated: u64,
    /// Frames that came later than one sent after them (RFC 4737).
    pub frames_reordered: u64,
    /// The farthest that one of those was behind.
    pub reordered_farthest_frames: u64,
    /// Frames so late that it is not known whether they are copies: counted as lost.
    pub frames_stale: u64,
    /// Frames that came before they left, by the clocks.
    pub frames_early: u64,
    /// From the stamp to the arrival at the interface.
    pub latency: Latency,
}

/// Latencies in nanoseconds; percentiles at most 1/128 above the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The least.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// Of half the frames at most.
    pub p50_ns: u64,
    /// Of 90 of 100.
    pub p90_ns: u64,
    /// Of 99 of 100.
    pub p99_ns: u64,
    /// Of 999 of 1000.
    pub p999_ns: u64,
    /// The most.
    pub max_ns: u64,
}

impl StreamReport {
    /// Of a stream of which nothing came.
    pub(crate) fn nothing(number: u16, sent: u64) -> StreamReport {
        StreamReport {
            stream: number,
            frames_received: 0,
            bytes_received: 0,
            frames_lost: sent,
            frames_duplicated: 0,
            frames_reordered: 0,
            reordered_farthest_frames: 0,
            frames_stale: 0,
            frames_early: 0,
            latency: Latency::default(),
        }
    }

    pub(crate) fn of(number: u16, stream: &Stream, sent: Option<u64>) -> StreamReport {
        let times = &stream.latency_ns;
        StreamReport {
            stream: number,
            frames_received: stream.received,
            bytes_received: stream.bytes,
            frames_lost: stream.loss(sent).lost,
            frames_duplicated: stream.duplicates,
            frames_reordered: stream.reordered,
            reordered_farthest_frames: stream.farthest,
            frames_stale: stream.stale,
            frames_early: stream.early,
            latency: Latency {
                min_ns: times.least(),
                mean_ns: times.mean(),
                p50_ns: times.percentile(500_000),
                p90_ns: times.percentile(900_000),
                p99_ns: times.percentile(990_000),
                p999_ns: times.percentile(999_000),
                max_ns: times.most(),
            },
        }
    }
}
