//! `measure-turns INTERFACE FILE TURNS SKIP SECONDS`: what a marking point costs packets that it does not
//! measure. Traffic of others passes the interface; the point is attached and detached in turns, and each time,
//! after SKIP seconds, the interface's bytes of SECONDS are counted. Prints
//! `{"with": [...], "without": [...], "matched"}`, in bytes per second, and how many packets it measured: 0, or
//! the filters in FILE are wrong. The program is loaded once; turns alternate in the order with, without,
//! without, with, so that a steady drift falls on both alike.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_ebpf::measure::{Clock, Config, Marking, Measure};
use netloom_ebpf::{Direction, Hook};
use serde::Serialize;

use super::point::{configuration, index_of};

/// Rates in bytes per second.
#[derive(Debug, Default, Serialize)]
pub(super) struct Turns {
    with: Vec<f64>,
    without: Vec<f64>,
    matched: u64,
}

pub(super) fn turns(
    interface: &str,
    file: &Path,
    turns: usize,
    [skip, time]: [Duration; 2],
) -> Result<Turns> {
    let session = configuration(file)?;
    let config = Config {
        clock: Clock::Monotonic,
        marking: Marking::Single,
        ..Config::of(&session, session.schedule(session.period)?)
    };
    let (index, hook) = (index_of(interface)?, Hook::probe());
    let mut point = Measure::load(Direction::Egress, &config)?;
    let mut told = Turns::default();
    let rate = || -> Result<f64> {
        std::thread::sleep(skip);
        let (start, before) = (Instant::now(), sent(interface)?);
        std::thread::sleep(time);
        #[expect(clippy::cast_precision_loss, reason = "a count of bytes below 2^53")]
        let bytes = (sent(interface)? - before) as f64;
        Ok(bytes / start.elapsed().as_secs_f64())
    };
    for turn in 0..turns {
        let order = if turn % 2 == 0 { [true, false] } else { [false, true] };
        for attached in order {
            if attached {
                point.attach_loaded(hook, index, Direction::Egress)?;
                told.with.push(rate()?);
                point.detach();
            } else {
                told.without.push(rate()?);
            }
        }
    }
    let counts = point.counts()?;
    if counts.unmatched == 0 {
        bail!("{interface}: no packet passed the point");
    }
    told.matched = counts.unmarked + counts.outside;
    Ok(told)
}

/// Bytes that an interface of this network namespace has sent.
fn sent(interface: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").context("read counters")?;
    of(&text, interface).with_context(|| format!("{interface}: no counters"))
}

/// The bytes sent, from a line `eth0: BYTES … (8 of received) BYTES …`.
fn of(text: &str, interface: &str) -> Option<u64> {
    let named = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == interface).then(|| rest.to_owned())
    };
    text.lines().find_map(named)?.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sent_are_the_ninth_number_of_the_interface_s_line() {
        let text = "Inter-| x\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 900 10 0 0 0 0 0 0\neth1: 1";
        assert_eq!((of(text, "eth0"), of(text, "eth1"), of(text, "eth2")), (Some(900), None, None));
    }
}
