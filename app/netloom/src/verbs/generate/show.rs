//! Results of generated and replayed frames, for people.

use netloom_generate::{Pacing, ReceiveReport, ReplayReport, SendReport};

use crate::output::{facts, table};

/// Result of sending.
pub(super) fn sent(report: &SendReport) -> String {
    let mut lines = vec![
        ("sent", format!("{} frames in {}", report.frames_sent, seconds(report.elapsed_ns))),
        ("engine", format!("{:?}", report.engine).to_lowercase()),
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
        ("engine", format!("{:?}", report.engine).to_lowercase()),
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
    let head = ["STREAM", "RECEIVED", "LOST", "TWICE", "REORDERED", "P50 us", "P99 us", "MAX us"];
    let rows = report.streams.iter().map(|s| {
        vec![
            s.stream.to_string(),
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
    if report.frames_dropped_here > 0 {
        text.push_str(&format!(
            "{} frames were lost here, by this receiver\n",
            report.frames_dropped_here
        ));
    }
    text
}

fn late(pacing: &Pacing) -> String {
    let mut text = format!(
        "{} us in the median, {} us for 1 in 100, {} us at most",
        us(pacing.p50_ns),
        us(pacing.p99_ns),
        us(pacing.max_ns)
    );
    let behind = [pacing.behind_p99_ns, pacing.behind_max_ns];
    if behind != [pacing.p99_ns, pacing.max_ns] {
        let [p99, most] = behind.map(us);
        text += &format!("; behind the schedule by {p99} us for 1 in 100, {most} us at most");
    }
    if pacing.call_ns > 0 {
        text += &format!("; in bursts of up to {} us", us(pacing.call_ns));
    } else if pacing.late > 0 {
        text += &format!(
            "; {} frames by more than 1 us, {} of them interrupted",
            pacing.late, pacing.late_interrupted
        );
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
