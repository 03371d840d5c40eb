//! Results of a run, for people and programs. Names contain the units; bytes include the check sequence.

use netloom_traffic::{Histogram, SentFrames, Stream};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// The engine used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UsedEngine {
    /// Frames generated in the kernel.
    LiveFrames,
    /// A packet socket's ring.
    Ring,
    /// A shared-memory switch.
    Shm,
}

/// Timing error of departures, in nanoseconds. A departure is the moment, on CLOCK_MONOTONIC, before the call
/// that hands frames to the interface; none is early.
///
/// `schedule` is the error against the schedule of the rate, as a sender without any interruption keeps it. `plan` is
/// the error against the sender's own plan, which an interruption shifts: after one, gaps are a tenth of the rate's
/// until the lost time is recovered. In a replay, and for live frames, the plan is the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pacing {
    /// Measured calls: one per frame, except for live frames, where a call sends many.
    pub departures: u64,
    /// Median lateness against the schedule.
    pub schedule_p50_ns: u64,
    /// 99th percentile.
    pub schedule_p99_ns: u64,
    /// 99.9th percentile.
    pub schedule_p999_ns: u64,
    /// Maximum.
    pub schedule_max_ns: u64,
    /// The mean.
    pub schedule_mean_ns: u64,
    /// Median lateness against the plan.
    pub plan_p50_ns: u64,
    /// 99th percentile.
    pub plan_p99_ns: u64,
    /// 99.9th percentile.
    pub plan_p999_ns: u64,
    /// Maximum.
    pub plan_max_ns: u64,
    /// Departures more than a microsecond later than planned.
    pub late: u64,
    /// Late departures caused by an interruption of the waiting sender; for the others, sending the frames
    /// before took too long.
    pub late_interrupted: u64,
    /// Interruptions of more than a microsecond while the sender waited: the kernel's timer, other work on
    /// its CPU, a hypervisor.
    pub interruptions: u64,
    /// Total time of these interruptions.
    pub interrupted_ns: u64,
    /// Longest span of the schedule that one call covered: its last frame may have left this much too early.
    /// 0 if each frame has its own call.
    pub call_ns: u64,
    /// Whether the sending thread had raised priority, which needs permission.
    pub preferred: bool,
    /// Whether it had to take real-time priority, because other work took its CPU, and slept a tenth of the time.
    pub real_time: bool,
}

impl Pacing {
    /// `None` when nothing was paced. `schedule`: errors against the schedule where that differs from the plan.
    pub(crate) fn of(clock: &Clock, schedule: Option<&Histogram>) -> Option<Pacing> {
        let plan = &clock.errors;
        let schedule = schedule.unwrap_or(plan);
        (plan.count() > 0).then(|| Pacing {
            departures: plan.count(),
            schedule_p50_ns: schedule.percentile(500_000),
            schedule_p99_ns: schedule.percentile(990_000),
            schedule_p999_ns: schedule.percentile(999_000),
            schedule_max_ns: schedule.most(),
            schedule_mean_ns: schedule.mean(),
            plan_p50_ns: plan.percentile(500_000),
            plan_p99_ns: plan.percentile(990_000),
            plan_p999_ns: plan.percentile(999_000),
            plan_max_ns: plan.most(),
            late: clock.late.0,
            late_interrupted: clock.late.1,
            interruptions: clock.interruptions.0,
            interrupted_ns: clock.interruptions.1,
            call_ns: 0,
            preferred: false,
            real_time: clock.insist.is_real(),
        })
    }
}

/// Result of a generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendReport {
    /// The engine.
    pub engine: UsedEngine,
    /// The stream's number.
    pub stream: u16,
    /// Frames that the interface took.
    pub frames_sent: u64,
    /// Frames that it refused: they have numbers, and are missing at the receiver.
    pub frames_refused: u64,
    /// Bytes of both.
    pub bytes_offered: u64,
    /// Time from the first frame to the end.
    pub elapsed_ns: u64,
    /// Frames sent per second.
    pub packets_per_second: f64,
    /// Bits of all offered frames per second.
    pub bits_per_second: f64,
    /// Timing error; none at top speed.
    pub pacing: Option<Pacing>,
}

/// A rate per second from a count and nanoseconds.
pub(crate) fn a_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

/// Frames of a file that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Longer than the interface's limit.
    pub frames_too_long: u64,
    /// Shorter than an Ethernet header.
    pub frames_too_short: u64,
    /// The file holds only part of the frame.
    pub frames_truncated: u64,
    /// From an interface other than Ethernet.
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

/// Result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// The engine.
    pub engine: UsedEngine,
    /// Frames that the interface took.
    pub frames_sent: u64,
    /// Frames that it refused.
    pub frames_refused: u64,
    /// Frames that were not offered to it.
    pub skipped: Skipped,
    /// Frames that follow newer ones in the file and were sent at their own time.
    #[serde(default)]
    pub frames_put_in_order: u64,
    /// Frames older than their predecessor as sent: sent without a gap. With recorded times they are further
    /// back than the look-ahead.
    pub frames_back_in_time: u64,
    /// Gaps cut to the requested maximum, and jumps back in time beyond it.
    #[serde(default)]
    pub gaps_cut: u64,
    /// Bytes of the frames sent and refused.
    pub bytes_offered: u64,
    /// Completed rounds of the file.
    pub rounds: u64,
    /// Time from the first frame to the end.
    pub elapsed_ns: u64,
    /// Frames sent per second.
    pub packets_per_second: f64,
    /// Timing error; none at top speed.
    pub pacing: Option<Pacing>,
}

/// Result of a receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveReport {
    /// By stream.
    pub streams: Vec<StreamReport>,
    /// Frames without a stamp.
    pub frames_foreign: u64,
    /// Frames of streams beyond the number that can be tracked.
    pub frames_untold: u64,
    /// Frames that this receiver was too slow for: lost here, not on the path.
    pub frames_dropped_here: u64,
    /// Time from the first stamped frame's arrival to the last's.
    pub span_ns: u64,
    /// Whether it ended because the interface disappeared.
    pub interface_gone: bool,
}

/// Result for one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Its number.
    pub stream: u16,
    /// Frames that have a number, as told by the sender; null if that is not known.
    #[serde(default)]
    pub frames_offered: Option<u64>,
    /// Of these, frames that the sender's own interface did not take.
    #[serde(default)]
    pub frames_refused: Option<u64>,
    /// Frames received for the first time.
    pub frames_received: u64,
    /// Bytes of these frames.
    pub bytes_received: u64,
    /// Frames that did not arrive, refused ones included. If it is not known how many there were, those after the last
    /// one received are missing here.
    pub frames_lost: u64,
    /// Duplicates.
    pub frames_duplicated: u64,
    /// Frames that arrived after one sent later (RFC 4737).
    pub frames_reordered: u64,
    /// Largest distance of a reordered frame, in frames.
    pub reordered_farthest_frames: u64,
    /// Frames too late to be checked for duplication: counted as lost.
    pub frames_stale: u64,
    /// Frames that, by the clocks, arrived before they left.
    pub frames_early: u64,
    /// From the stamp to arrival at the interface.
    pub latency: Latency,
}

/// Latencies in nanoseconds; percentiles are at most 1/128 above the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Minimum.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

impl StreamReport {
    /// Result for a stream without any arrival.
    pub(crate) fn nothing(number: u16, sent: SentFrames) -> StreamReport {
        StreamReport {
            stream: number,
            frames_offered: Some(sent.offered),
            frames_refused: Some(sent.refused),
            frames_received: 0,
            bytes_received: 0,
            frames_lost: sent.offered,
            frames_duplicated: 0,
            frames_reordered: 0,
            reordered_farthest_frames: 0,
            frames_stale: 0,
            frames_early: 0,
            latency: Latency::default(),
        }
    }

    pub(crate) fn of(number: u16, stream: &Stream, sent: Option<SentFrames>) -> StreamReport {
        let times = &stream.latency_ns;
        StreamReport {
            stream: number,
            frames_offered: sent.map(|sent| sent.offered),
            frames_refused: sent.map(|sent| sent.refused),
            frames_received: stream.received,
            bytes_received: stream.bytes,
            frames_lost: stream.loss(sent.map(|sent| sent.offered)).lost,
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
