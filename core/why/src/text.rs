//! A report as text for people.

use crate::cause::{Basis, Cause, Direction};
use crate::report::{Recorded, Report, Sighting, Way};

/// The report as text, with a newline at its end.
pub fn text(report: &Report) -> String {
    let port = report.port.map_or_else(String::new, |port| format!(" {port}"));
    let mut lines = vec![
        format!(
            "{} -> {}, {}{port}, from {} to {}: {}",
            report.from,
            report.to,
            report.protocol.name(),
            report.source,
            report.destination,
            match report.recorded {
                Some(Recorded { packets: 0, .. }) => "no packet is recorded",
                Some(_) => report.verdict.past_words(),
                None => report.verdict.words(),
            }
        ),
        report.recorded.map_or_else(|| format!("sent: {}", report.probe), |of| recorded(&of)),
    ];
    way(&mut lines, "there", &report.there);
    if let Some(back) = &report.back {
        way(&mut lines, "back", back);
    }
    for (at, found) in report.causes.iter().enumerate() {
        let number = if report.causes.len() > 1 { format!(" {}", at + 1) } else { String::new() };
        cause(&mut lines, &format!("cause{number}"), found);
    }
    for found in &report.hindrances {
        cause(&mut lines, "hindrance", found);
    }
    for text in &report.missing {
        lines.push(format!("not known: {text}"));
    }
    lines.join("\n") + "\n"
}

fn recorded(of: &Recorded) -> String {
    let Recorded { packets, lost, answers, lost_answers } = of;
    format!(
        "recorded: {packets} packets, {lost} of them did not arrive; {answers} answers, {lost_answers} of them did not arrive"
    )
}

fn way(lines: &mut Vec<String>, title: &str, way: &Way) {
    if way.hops.is_empty() {
        return;
    }
    lines.push(format!("{title}:"));
    let width = way.hops.iter().map(|hop| hop.name.chars().count()).max().unwrap_or(0);
    for hop in &way.hops {
        let seen = match hop.seen {
            Sighting::Packet => "seen",
            Sighting::Resolution => "only the question for the next hop's address",
            Sighting::Nothing => "not seen",
            Sighting::NotWatched => "not watched",
        };
        let mark = match (&way.last, &way.lost) {
            (Some(last), Some(_)) if *last == key(hop) => "   <- the last that saw it",
            (_, Some(lost)) if *lost == key(hop) => "   <- the first that did not",
            _ => "",
        };
        let direction = if hop.out { "out" } else { "in " };
        lines.push(format!("  {:width$}  {direction}  {seen}{mark}", hop.name));
    }
    for of in &way.translated {
        lines.push(format!("  {} translates {} to {}", of.node, of.before, of.after));
        lines.extend(of.rule.iter().map(|rule| format!("    by {rule}")));
    }
}

/// How [`Way::last`] and [`Way::lost`] name a hop.
pub(crate) fn key(hop: &crate::Hop) -> String {
    format!("{} {}", hop.name, if hop.out { "out" } else { "in" })
}

fn cause(lines: &mut Vec<String>, title: &str, cause: &Cause) {
    let direction = if cause.direction == Direction::Back { ", on the way back" } else { "" };
    let basis = match cause.basis {
        Basis::Probe => "",
        Basis::Facts => " (by tables and settings; the probe did not come as far)",
        Basis::Now => " (as it is now; how it was then is not recorded)",
    };
    let basis = if title == "hindrance" { "" } else { basis };
    lines.push(format!("{title}: {} at {}{direction}{basis}", cause.name, cause.place));
    lines.push(format!("  {}", cause.text));
    lines.extend(cause.evidence.iter().map(|found| format!("  evidence: {found}")));
    if let Some(mend) = &cause.mend {
        lines.push(format!("  mend: {mend}"));
    }
}
