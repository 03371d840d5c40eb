//! A measurement point at an interface of this process's network namespace.
//!
//! `measure-point INTERFACE in|mark|mark-twice count|samples FILE SECONDS`: FILE holds a request of the API.
//! Blocks follow the monotonic clock and are numbered from its start, so that points of one machine agree on
//! them. Each is read once closed, as in a measurement. Prints
//! `{"packets", "blocks", "to_unix_ns", "outside"}`; each block with `block`, `packets`, `mean_ns` (since its
//! beginning), `complete`, `samples` (`[hash, identity, time]` each, on request) and `unkept`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Config, FlowBlock, Marking, Measure};
use netloom_marking::Record;
use netloom_marking::session::Configuration;
use serde::Serialize;

use super::ready;
use super::stop::Stop;

/// Interval between checks for closed blocks.
const LOOK: Duration = Duration::from_millis(5);
/// Samples of a flow and block kept on each CPU.
const SAMPLES: u32 = 1 << 16;

/// Direction of a point, and whether it marks.
pub(super) fn place(word: &str) -> Result<(Direction, Marking)> {
    match word {
        "in" => Ok((Direction::Ingress, Marking::Off)),
        "mark" => Ok((Direction::Egress, Marking::Single)),
        "mark-twice" => Ok((Direction::Egress, Marking::Double)),
        _ => bail!("peer: `{word}`: in, mark or mark-twice"),
    }
}

/// Whether samples are printed.
pub(super) fn samples(word: &str) -> Result<bool> {
    match word {
        "count" => Ok(false),
        "samples" => Ok(true),
        _ => bail!("peer: `{word}`: count or samples"),
    }
}

/// Output of a point.
#[derive(Debug, Default, Serialize)]
pub(super) struct Pointed {
    /// Packets in all blocks, complete or not.
    packets: u64,
    blocks: Vec<Block>,
    /// Offset from the clock's times to Unix time.
    to_unix_ns: i64,
    /// Packets outside every block.
    outside: u64,
}

/// A block of all flows together.
#[derive(Debug, Default, Serialize)]
struct Block {
    block: u64,
    packets: u64,
    mean_ns: Option<f64>,
    complete: bool,
    unkept: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    samples: Vec<[u64; 3]>,
}

pub(super) fn point(
    interface: &str,
    (direction, marking): (Direction, Marking),
    samples: bool,
    file: &Path,
    most: Duration,
) -> Result<Pointed> {
    let session = configuration(file)?;
    let schedule = session.schedule(session.period)?;
    let config = Config {
        clock: Clock::Monotonic,
        marking,
        samples: SAMPLES,
        ..Config::of(&session, schedule)
    };
    let mut point = Measure::attach(index_of(interface)?, direction, &config)?;
    let mut next = schedule.block_at(point.now()).unwrap_or(0);
    let mut told = Pointed { to_unix_ns: point.clock().to_unix, ..Pointed::default() };
    let stop = Stop::new(most);
    ready();
    while !stop.over() {
        std::thread::sleep(LOOK);
        while point.now() >= point.readable_at(next) {
            told.add(&point.read_bank(next)?, samples);
            next += 1;
        }
    }
    point.detach();
    let last = schedule.block_at(point.now()).unwrap_or(next);
    for block in next..=last {
        told.add(&point.read_bank(block)?, samples);
    }
    told.outside = point.counts()?.outside;
    Ok(told)
}

/// The session in a file.
pub(super) fn configuration(file: &Path) -> Result<Configuration> {
    let body = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let session = Configuration::read(&body);
    session.map_err(|problems| anyhow::anyhow!("{}: {problems:?}", file.display()))
}

/// The index in this process's network namespace: /sys may show another one.
pub(super) fn index_of(interface: &str) -> Result<u32> {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None).context("open a socket")?;
    netdevice::name_to_index(&socket, interface)
        .with_context(|| format!("find the interface {interface}"))
}

impl Pointed {
    fn add(&mut self, flows: &[FlowBlock], samples: bool) {
        let Some(first) = flows.first() else { return };
        let mut block = Block { block: first.record.block, complete: true, ..Block::default() };
        let mut sum = 0.0;
        for flow in flows {
            block.packets += flow.record.all.packets;
            block.complete &= flow.record.completeness.is_complete();
            sum += since_begin(&flow.record).unwrap_or(0.0);
            let Some(sampled) = &flow.sampled else { continue };
            block.unkept += sampled.unkept;
            if samples {
                let each = |s: &netloom_marking::Sample| [s.hash.into(), s.identity.into(), s.time];
                block.samples.extend(sampled.samples.iter().map(each));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
        let mean = sum / block.packets as f64;
        block.mean_ns = mean.is_finite().then_some(mean);
        self.packets += block.packets;
        self.blocks.push(block);
    }
}

/// Sum of packet times relative to the block's beginning.
fn since_begin(record: &Record) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "an hour in ns, and counts, are below 2^53")]
    let [before, packets] = [record.begin - record.origin, record.all.packets].map(|n| n as f64);
    Some((record.all.mean()? - before) * packets)
}

#[cfg(test)]
mod tests {
    use netloom_marking::{Counters, Schedule};

    use super::*;

    #[test]
    fn means_are_of_all_flows_together() {
        let schedule = Schedule::new(1_000_000, 1_000_000, 100_000).unwrap();
        let flow = |id, packets, time: u64| {
            let mut counters = Counters::default();
            counters.all.add(500_000 + time, packets);
            let record = Record::new(&schedule, 3, &[counters], 0, 10_000_000);
            FlowBlock { id, record, sampled: None }
        };
        let mut told = Pointed::default();
        told.add(&[flow(0, 1, 400), flow(1, 3, 800), flow(2, 0, 0)], false);
        let block = &told.blocks[0];
        assert_eq!((told.packets, block.block, block.packets, block.complete), (4, 3, 4, true));
        assert!((block.mean_ns.unwrap() - 700.0).abs() < 1e-6, "{block:?}");
        told.add(&[flow(0, 0, 0)], true);
        assert_eq!((told.packets, told.blocks[1].mean_ns), (4, None));
    }

    #[test]
    fn words_are_read() {
        assert_eq!(place("in").unwrap(), (Direction::Ingress, Marking::Off));
        assert_eq!(place("mark-twice").unwrap(), (Direction::Egress, Marking::Double));
        assert!(place("out").is_err() && samples("all").is_err() && samples("samples").unwrap());
    }
}
