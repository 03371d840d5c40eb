//! Results of generated and replayed frames, for people.

use netloom_generate::{Pacing, ReceiveReport, ReplayReport, SendReport, UsedEngine};

use crate::output::{facts, table};

/// Result of sending.
pub(super) fn sent(report: &SendReport) -> String {
    let mut lines = vec![
        ("sent", format!("{} frames in {}", report.frames_sent, seconds(report.elapsed_ns))),
        ("engine", engine(report.engine).to_owned()),
        (
            "rate",
            format!(
                "{:.3} Mpps, {:.3} Gb/s",
                report.packets_per_second / 1e6,
                report.bits_per_second / 1e9
            ),
        ),
        ("refused", report.frames_refused.to_string()),
    ];
    lines.extend(report.pacing.as_ref().map(|pacing| ("late by", late(pacing))));
    facts(&lines)
}

/// Result of a replay.
pub(super) fn replayed(report: &ReplayReport) -> String {
    let skipped = &report.skipped;
    let mut lines = vec![
        ("sent", format!("{} frames in {}", report.frames_sent, seconds(report.elapsed_ns))),
        ("engine", engine(report.engine).to_owned()),
        ("rate", format!("{:.3} Mpps", report.packets_per_second / 1e6)),
        ("refused", report.frames_refused.to_string()),
        (
            "skipped",
            format!(
                "{} too long, {} too short, {} cut when captured, {} not Ethernet",
                skipped.frames_too_long,
                skipped.frames_too_short,
                skipped.frames_truncated,
                skipped.frames_not_ethernet
            ),
        ),
    ];
    if report.frames_put_in_order + report.frames_back_in_time > 0 {
        let text = format!(
            "{} frames put where they belong, {} too far back, sent without a gap",
            report.frames_put_in_order, report.frames_back_in_time
        );
        lines.push(("by time", text));
    }
    if report.gaps_cut > 0 {
        lines.push(("gaps", format!("{} longer than --max-gap, cut to it", report.gaps_cut)));
    }
    lines.extend(report.pacing.as_ref().map(|pacing| ("late by", late(pacing))));
    facts(&lines)
}

/// An engine, as `--engine` names it.
fn engine(used: UsedEngine) -> &'static str {
    match used {
        UsedEngine::LiveFrames => "live-frames",
        UsedEngine::Ring => "ring",
        UsedEngine::Shm => "shm",
    }
}

/// A long time, rounded.
pub(super) fn long(time: std::time::Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds @ ..63_072_000 => format!("{} days", seconds / 86_400),
        seconds => format!("{} years", seconds / 31_536_000),
    }
}

/// Result of receiving.
pub(super) fn received(report: &ReceiveReport) -> String {
    let head =
        ["STREAM", "SENT", "RECEIVED", "LOST", "TWICE", "REORDERED", "P50 us", "P99 us", "MAX us"];
    let rows = report.streams.iter().map(|s| {
        vec![
            s.stream.to_string(),
            s.frames_offered.map_or("?".to_owned(), |sent| sent.to_string()),
            s.frames_received.to_string(),
            s.frames_lost.to_string(),
            s.frames_duplicated.to_string(),
            s.frames_reordered.to_string(),
            us(s.latency.p50_ns),
            us(s.latency.p99_ns),
            us(s.latency.max_ns),
        ]
    });
    let mut text = table(&head, rows.collect());
    for (stream, refused) in
        report.streams.iter().filter_map(|s| Some((s.stream, s.frames_refused?)))
    {
        if refused > 0 {
            text.push_str(&format!(
                "stream {stream}: {refused} of the lost frames were refused by the sender's interface\n"
            ));
        }
    }
    if report.streams.iter().any(|s| s.frames_offered.is_none()) {
        text.push_str(
            "a sender did not tell how many it sent: frames lost at the end are not counted\n",
        );
    }
    if report.frames_dropped_here > 0 {
        text.push_str(&format!(
            "{} frames were lost here, by this receiver\n",
            report.frames_dropped_here
        ));
    }
    text
}

/// Errors against the schedule, and against the plan where that differs.
fn late(pacing: &Pacing) -> String {
    let errors = |[p50, p99, p999, most]: [u64; 4]| {
        let [p50, p99, p999, most] = [p50, p99, p999, most].map(us);
        format!("p50 {p50}, p99 {p99}, p99.9 {p999}, worst {most} us")
    };
    let schedule = [
        pacing.schedule_p50_ns,
        pacing.schedule_p99_ns,
        pacing.schedule_p999_ns,
        pacing.schedule_max_ns,
    ];
    let plan = [pacing.plan_p50_ns, pacing.plan_p99_ns, pacing.plan_p999_ns, pacing.plan_max_ns];
    let mut text = errors(schedule);
    if plan != schedule {
        text += &format!("; against the plan {}", errors(plan));
    }
    if pacing.call_ns > 0 {
        text += &format!("; in bursts of up to {} us", us(pacing.call_ns));
    } else if pacing.late > 0 {
        text += &format!(
            "; {} frames later than planned by more than 1 us, {} of them interrupted",
            pacing.late, pacing.late_interrupted
        );
    }
    if pacing.real_time {
        text += "; in real time, because other work took the CPU";
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "times are below 2^53 ns")]
fn us(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "times are below 2^53 ns")]
fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
