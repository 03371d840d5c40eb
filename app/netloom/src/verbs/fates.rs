//! `link fates`: follows single packets while the link records what happens to them.
//!
//! Recording costs the wire time and memory, so it is stopped however following ends, except by a kill.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Result;
use netloom_api::Client;
use netloom_lab::calls::{NoteFates, ReadFates, ShowLink};
use netloom_lab::values::Whole;
use netloom_lab::view::{FateView, LinkStatus};
use netloom_sys::process;

use crate::flags::LinkFates;
use crate::output::{print, utc};

/// How long the lab may wait for packets, over all directions; a signal waits as long.
const WAIT: Duration = Duration::from_millis(200);

/// Follows packets until a signal, until enough were shown, or until the lab ends.
pub(super) fn follow(client: &Client, args: &LinkFates) -> Result<()> {
    let asked = args.link();
    let link = client.call(&ShowLink { link: asked.clone().into() })?;
    let ends = ends(&link, &asked);
    let signals = super::ending()?;
    let note = |keep| client.call(&NoteFates { link: link.name.clone().into(), keep: Whole(keep) });
    note(args.keep.into())?;
    let mut following = Following { client, link: &link, json: args.json, left: args.count };
    // Its error waits: recording is stopped first.
    let shown = following.run(&ends, &signals);
    match note(0) {
        // The lab was taken down in the meantime.
        Err(netloom_api::Error::NotRunning(_) | netloom_api::Error::Closed { .. }) => shown,
        stopped => shown.and(stopped.map(|_| ()).map_err(Into::into)),
    }
}

/// The ends whose packets to follow: the named one, or else those with impairments.
fn ends(link: &LinkStatus, asked: &str) -> Vec<usize> {
    if asked != link.name
        && let Some(end) = link.ends.iter().position(|end| end == asked)
    {
        return vec![end];
    }
    let directions = link.wire.iter().flat_map(|wire| wire.directions.iter().enumerate());
    let impaired: Vec<usize> = directions.filter(|(_, d)| d.is_some()).map(|(n, _)| n).collect();
    if impaired.is_empty() { vec![0, 1] } else { impaired }
}

struct Following<'a> {
    client: &'a Client,
    link: &'a LinkStatus,
    json: bool,
    /// Packets left to show.
    left: Option<u64>,
}

impl Following<'_> {
    fn run(&mut self, ends: &[usize], signals: &OwnedFd) -> Result<()> {
        let mut after: Vec<Option<u64>> = vec![None; ends.len()];
        let share = WAIT / u32::try_from(ends.len().max(1)).unwrap_or(1);
        let mut wait = Duration::ZERO;
        while self.left != Some(0) && !is_readable(signals) {
            let mut found = Vec::new();
            for (end, after) in ends.iter().zip(&mut after) {
                let asked = ReadFates {
                    link: self.link.name.clone().into(),
                    end: Whole(u64::from(*end > 0)),
                    after: *after,
                    wait_ms: Whole::of(wait),
                };
                let fates = match self.client.call(&asked) {
                    Err(netloom_api::Error::NotRunning(_) | netloom_api::Error::Closed { .. }) => {
                        return Ok(());
                    }
                    other => other?,
                };
                if fates.missed > 0 {
                    let from = &self.link.ends[*end];
                    tell_line!("note: {} from {from} came too fast to be shown", fates.missed);
                }
                *after = fates.fates.last().map(|fate| fate.sequence).or(*after);
                found.extend(fates.fates);
            }
            // Wait only after an empty answer, so that a silent direction does not delay a busy one.
            wait = if found.is_empty() { share } else { Duration::ZERO };
            found.sort_by_key(|fate| fate.time_ns);
            self.show(&found)?;
        }
        Ok(())
    }

    fn show(&mut self, fates: &[FateView]) -> Result<()> {
        let room = self.left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
        let shown = &fates[..fates.len().min(room)];
        let mut text = String::new();
        for fate in shown {
            if self.json {
                text.push_str(&netloom_form::to_string(fate)?);
                text.push('\n');
            } else {
                text.push_str(&line(fate, &self.link.ends));
            }
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(u64::try_from(shown.len())?);
        }
        if text.is_empty() { Ok(()) } else { print(&text) }
    }
}

/// Whether a signal is pending.
fn is_readable(signals: &impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags};
    let mut fds = [PollFd::new(signals, PollFlags::IN)];
    let now = process::timespec(Duration::ZERO);
    rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
}

/// `TIME FROM #NUMBER BYTES HASH FATE`
fn line(fate: &FateView, ends: &[String; 2]) -> String {
    let from = ends.get(fate.end).map_or("-", String::as_str);
    let mut became = match (fate.fate.as_str(), fate.delay_ns) {
        ("sent", Some(ns)) => format!("sent after {}", delay(ns)),
        ("sent", None) => "sent".to_owned(),
        (cause, _) => format!("lost: {cause}"),
    };
    for (is, word) in [(fate.duplicated, "twice"), (fate.corrupted, "corrupted")] {
        if is {
            became.push_str(", ");
            became.push_str(word);
        }
    }
    let FateView { sequence, bytes, hash, .. } = fate;
    format!("{} {from} #{sequence} {bytes} B {hash} {became}\n", utc(fate.time_ns))
}

/// Nanoseconds as milliseconds.
fn delay(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::samples;

    #[test]
    fn a_packet_is_a_line() {
        let ends = ["a:x".to_owned(), "b:y".to_owned()];
        let mut fate = FateView {
            sequence: 7,
            end: 1,
            time_ns: 1_001_000,
            hash: "00ff".into(),
            bytes: 98,
            fate: "sent".into(),
            delay_ns: Some(10_020_999),
            duplicated: true,
            corrupted: true,
        };
        let head = "1970-01-01T00:00:00.001001Z b:y #7 98 B 00ff";
        let expected = format!("{head} sent after 10.020 ms, twice, corrupted\n");
        assert_eq!(line(&fate, &ends), expected);
        fate = FateView { fate: "queue".into(), delay_ns: None, ..fate };
        (fate.duplicated, fate.corrupted) = (false, false);
        assert_eq!(line(&fate, &ends), format!("{head} lost: queue\n"));
    }

    #[test]
    fn an_end_that_is_named_is_followed_alone() {
        let links = samples::status().links;
        assert_eq!(ends(&links[0], "t:eth0--s"), [0], "only that way is impaired");
        assert_eq!(ends(&links[0], "t:eth0"), [0]);
        assert_eq!(ends(&links[1], "b:y"), [1]);
        assert_eq!(ends(&links[1], "a:x--b:y"), [0, 1]);
    }
}
