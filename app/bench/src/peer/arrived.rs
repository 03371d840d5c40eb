//! `arrived INTERFACE SKIP SECONDS`: frames that an interface of this network namespace receives; prints `{"per_s", "frames"}`, a
//! rate over SECONDS, from SKIP seconds after the first ones. None for a while is a rate of 0.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::ready;

/// Fewer are not of a flood, but of its beginning.
const FIRST: u64 = 20;
/// How long the first may take.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(2);

/// Result of `arrived`.
#[derive(Debug, Serialize)]
pub(super) struct Arrived {
    per_s: f64,
    frames: u64,
}

pub(super) fn arrived(interface: &str, skip: Duration, time: Duration) -> Result<Arrived> {
    let before = received(interface)?;
    ready();
    let begin = Instant::now();
    while received(interface)? < before + FIRST && begin.elapsed() < PATIENCE {
        sleep(LOOK);
    }
    sleep(skip);
    let (before, start) = (received(interface)?, Instant::now());
    sleep(time);
    let frames = received(interface)?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
    Ok(Arrived { per_s: frames as f64 / start.elapsed().as_secs_f64(), frames })
}

fn received(interface: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").context("read counters")?;
    count(&text, interface).with_context(|| format!("{interface}: no counters"))
}

/// The second number of an interface's line.
fn count(text: &str, interface: &str) -> Option<u64> {
    let own = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == interface).then(|| counts.split_whitespace().nth(1)?.parse().ok())?
    };
    text.lines().find_map(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_interface() {
        let text = "Inter-|   Receive\n face |bytes packets\n    lo: 5 6 0\n  eth0: 70 8 0 0\n eth01: 1 2\n";
        assert_eq!(
            (count(text, "eth0"), count(text, "lo"), count(text, "eth")),
            (Some(8), Some(6), None)
        );
    }
}
