//! Exactness of delays: the mean delay of a block from two points, minus the mean over its packets from
//! kernel packet socket stamps at the same interfaces, joined afterwards.
//!
//! Datagrams are numbered, so that each can be found at the other end. If a packet socket there sees one
//! twice, before its wire and after it, the later stamp counts. A block counts if it is complete and the
//! files have as many of its packets as the points. For a sampling program only the selected packets are
//! compared, as the reference selects them among the captured ones. Everything runs on one machine with one
//! clock, so clock differences are not part of these errors.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail};
use netloom_marking::session::Configuration;
use netloom_marking::{Offload, Packet, Sample, Schedule, match_samples};
use netloom_pcap::read::{Item, Reader};
use serde_json::Value;

use super::asked::{ALL, FIXED, Kind, configuration, to_port};
use super::rates::points;
use crate::capture::pair::{Pair, cores};
use crate::capture::program::Program;

/// Settings of the links, as the lab file has them.
pub(super) const LINKS: [&str; 2] = ["", ", delay: 2ms, jitter: 0.5ms"];
/// Port of the flow.
const PORT: u16 = 7100;
/// Seconds per block, and seconds of traffic.
const PERIOD: f64 = 0.2;
const SECONDS: u32 = 1;
/// Datagrams per second, maximum burst, and bytes of data.
const RATE: u32 = 10_000;
const BURST: &str = "16";
const BYTES: &str = "100";
/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Ethernet header; then IPv4 and UDP headers.
const ETHERNET: usize = 14;
const HEADERS: usize = ETHERNET + 20 + 8;

/// A cell: a program, over a link of [`LINKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Delay {
    pub(super) link: usize,
    pub(super) kind: Kind,
}

/// All of them.
pub(super) fn all() -> [Delay; 3] {
    [Delay { link: 1, kind: ALL }, Delay { link: 0, kind: ALL }, Delay { link: 1, kind: FIXED }]
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.link == 0 { "plain link" } else { "link of 2 ms with 0.5 ms jitter" };
        write!(f, "delay, {link}, {}", self.kind)
    }
}

/// Result of a run: means over its blocks, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// Absolute error.
    pub(super) error: f64,
    /// Signed error: positive if too high.
    pub(super) bias: f64,
    /// Actual delay, from per-packet stamps.
    pub(super) delay: f64,
    /// Blocks that counted.
    pub(super) blocks: f64,
}

/// Measures once.
pub(super) fn measure(pair: &Pair<'_>, delay: Delay) -> Result<Told> {
    let (driver, lab) = (pair.driver(), pair.lab());
    let (from, to) = (pair.sender(delay.link)?.0, pair.receiver(delay.link)?);
    let file = driver.folder().join("measure.pcapng");
    let mut command = pair.netloom(cores()[1]);
    command.arg("capture").args([format!("a:{from}"), format!("b:{to}")]);
    command.args(["--engine", "tpacket", "-s", "96", "--ring", "64MiB", "--json", "-w"]).arg(&file);
    let capture = Program::start(driver.folder(), &mut command, "stamps")?;
    let capture = capture.until_it_says("2 interfaces")?;
    let points = points(pair, delay.link, delay.kind, PERIOD, &[PORT], true)?;
    let sink = ["on", cores()[1], "udp-sink", &PORT.to_string(), "count", MOST];
    let sink = driver.peer(lab, "b", &sink)?.ready()?;
    let to = format!("{}:{PORT}", pair.address(delay.link)?);
    let (count, rate) = ((RATE * SECONDS).to_string(), RATE.to_string());
    let source = ["on", cores()[0], "udp-source", &to, BYTES, &count, &rate, BURST];
    driver.peer(lab, "a", &source)?.result()?;
    let wait = configuration(&delay.kind.body(PERIOD, vec![to_port(PORT)]))?;
    // Wait until packets in flight have arrived and their block is closed.
    std::thread::sleep(std::time::Duration::from_nanos(wait.period + wait.guard));
    let points = points.map(|point| point.end());
    sink.end()?;
    capture.until_idle();
    capture.interrupt()?;
    let [first, second] = points;
    let [first, second] = [point(&first?)?, point(&second?)?];
    let ways = ways(&file, &wait, second.to_unix)?;
    std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
    told(&wait, &first, &second, &ways)
}

/// A point's output about its blocks.
struct Point {
    blocks: BTreeMap<u64, Block>,
    to_unix: i64,
}

struct Block {
    packets: u64,
    mean: Option<f64>,
    complete: bool,
    samples: Vec<Sample>,
}

fn point(printed: &Value) -> Result<Point> {
    let blocks = printed["blocks"].as_array().context("a point tells no blocks")?;
    let block = |told: &Value| {
        let samples = told["samples"].as_array().into_iter().flatten().map(sample);
        let block = Block {
            packets: told["packets"].as_u64().context("a block without packets")?,
            mean: told["mean_ns"].as_f64(),
            complete: told["complete"] == true && told["unkept"] == 0,
            samples: samples.collect::<Result<_>>()?,
        };
        Ok((told["block"].as_u64().context("a block without a number")?, block))
    };
    let blocks = blocks.iter().map(block).collect::<Result<_>>()?;
    let to_unix = printed["to_unix_ns"].as_i64().context("a point does not tell its clock")?;
    Ok(Point { blocks, to_unix })
}

fn sample(told: &Value) -> Result<Sample> {
    let word = |at: usize| told[at].as_u64().context("a sample that is none");
    let short = |at: usize| Ok::<_, anyhow::Error>(u32::try_from(word(at)?)?);
    Ok(Sample { hash: short(0)?, identity: short(1)?, time: word(2)? })
}

/// A packet's path, from the stamps.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trip {
    block: u64,
    /// Nanoseconds.
    took: f64,
    /// Whether the program selects it; true if the program does not sample.
    selected: bool,
}

/// Paths of all packets stamped at both ends. `to_unix` converts the points' clock to the stamps'.
fn ways(file: &Path, asked: &Configuration, to_unix: i64) -> Result<Vec<Trip>> {
    let schedule = asked.schedule(asked.period)?;
    let open = File::open(file).with_context(|| format!("open {}", file.display()))?;
    let mut reader = Reader::new(BufReader::new(open))?;
    let (mut names, mut sent, mut arrived) = (vec![], HashMap::new(), BTreeMap::new());
    while let Some(item) = reader.next()? {
        match item {
            Item::Interface(interface) => names.push(interface.name.clone().unwrap_or_default()),
            Item::Packet(packet) => {
                let (Some(time), Some(number)) = (packet.time_ns, numbered(packet.data)) else {
                    continue;
                };
                let at = names.get(usize::try_from(packet.interface)?);
                if at.is_some_and(|name| name.starts_with("a:")) {
                    sent.insert(number, time);
                } else {
                    let time_there = time.checked_add_signed(to_unix.wrapping_neg());
                    let of =
                        time_there.and_then(|time| marked(packet.data, time, asked, &schedule));
                    if let Some((block, selected)) = of {
                        let last = arrived.entry(number).or_insert((time, block, selected));
                        *last = (time, block, selected).max(*last);
                    }
                }
            }
            _ => {}
        }
    }
    let way = |(number, (time, block, selected)): (u64, (u64, u64, bool))| {
        #[expect(clippy::cast_precision_loss, reason = "a delay in ns is below 2^53")]
        let took = (i128::from(time) - i128::from(*sent.get(&number)?)) as f64;
        Some(Trip { block, took, selected })
    };
    Ok(arrived.into_iter().filter_map(way).collect())
}

/// The number of one of this experiment's datagrams.
fn numbered(frame: &[u8]) -> Option<u64> {
    let packet = Packet::parse(frame.get(ETHERNET..)?)?;
    let (_, to) = packet.ports()?;
    let number = frame.get(HEADERS..HEADERS + 8)?.try_into().ok()?;
    (to == PORT).then(|| u64::from_be_bytes(number))
}

/// The block of a packet, from its mark and its time on the points' clock, and whether it is selected.
fn marked(
    frame: &[u8],
    time: u64,
    asked: &Configuration,
    schedule: &Schedule,
) -> Option<(u64, bool)> {
    let packet = Packet::parse(frame.get(ETHERNET..)?)?;
    let mark = asked.marks.read(packet.traffic_class())?;
    let selected = asked.sampling.is_none_or(|sampling| {
        let hash = sampling.hasher.hash(&packet, Offload::default());
        hash.is_ok_and(|hash| sampling.selection.selects(hash))
    });
    Some((schedule.block_of(time, mark.colour)?, selected))
}

/// Compares the points' results with the truth.
fn told(asked: &Configuration, first: &Point, second: &Point, ways: &[Trip]) -> Result<Told> {
    let (mut errors, mut truths) = (vec![], vec![]);
    for (number, from) in &first.blocks {
        let Some(to) = second.blocks.get(number) else { continue };
        let of_block = || ways.iter().filter(|way| way.block == *number);
        let whole = from.complete && to.complete && from.packets == to.packets;
        if !whole || from.packets == 0 || of_block().count() as u64 != from.packets {
            continue;
        }
        let truth: Vec<f64> = of_block().filter(|way| way.selected).map(|way| way.took).collect();
        let ours = match asked.sampling {
            None => to.mean.zip(from.mean).map(|(to, from)| to - from),
            Some(sampling) => {
                let [from, to] = [from, to].map(|block| (sampling.selection, &block.samples[..]));
                match_samples(from, to).mean()
            }
        };
        if let (Some(ours), Some(truth)) = (ours, mean(&truth)) {
            errors.push((ours - truth) / 1e3);
            truths.push(truth / 1e3);
        }
    }
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let (Some(error), Some(bias), Some(delay)) = (mean(&sizes), mean(&errors), mean(&truths))
    else {
        bail!("no block that is whole at both points and in the file, of {}", first.blocks.len())
    };
    #[expect(clippy::cast_precision_loss, reason = "a few blocks")]
    Ok(Told { error, bias, delay, blocks: errors.len() as f64 })
}

fn mean(of: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
    let count = of.len() as f64;
    (!of.is_empty()).then(|| of.iter().sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(kind: Kind) -> Configuration {
        configuration(&kind.body(PERIOD, vec![to_port(PORT)])).unwrap()
    }

    fn told_by(mean: f64, packets: u64, samples: Value) -> Point {
        let block = json!({"block": 7, "packets": packets, "mean_ns": mean, "complete": true,
            "unkept": 0, "samples": samples});
        let open =
            json!({"block": 8, "packets": 1, "mean_ns": 5.0, "complete": false, "unkept": 0});
        point(&json!({"blocks": [block, open], "to_unix_ns": -5})).unwrap()
    }

    fn way(block: u64, took: f64, selected: bool) -> Trip {
        Trip { block, took, selected }
    }

    #[test]
    fn an_error_is_what_is_told_less_the_truth() {
        let points = [told_by(1e6, 2, json!([])), told_by(1.009e6, 2, json!([]))];
        let ways = [way(7, 10_000.0, true), way(7, 12_000.0, true), way(8, 1.0, true)];
        let told_of = |ways| told(&asked(ALL), &points[0], &points[1], ways);
        let told = told_of(&ways).unwrap();
        assert!((told.error - 2.0).abs() < 1e-9 && (told.bias + 2.0).abs() < 1e-9, "{told:?}");
        assert!((told.delay - 11.0).abs() < 1e-9 && told.blocks == 1.0, "{told:?}");
        // With a packet missing from the file, the truth is unknown.
        assert!(told_of(&ways[1..]).is_err());
    }

    #[test]
    fn samples_are_compared_with_the_same_packets() {
        let points = [
            told_by(0.0, 3, json!([[1, 10, 500], [1, 11, 900]])),
            told_by(0.0, 3, json!([[1, 11, 4900], [1, 10, 3500]])),
        ];
        let ways = [way(7, 3000.0, true), way(7, 1e9, false), way(7, 4200.0, true)];
        let told = told(&asked(FIXED), &points[0], &points[1], &ways).unwrap();
        assert!((told.bias + 0.1).abs() < 1e-9, "{told:?}");
    }

    #[test]
    fn datagrams_of_ours_are_known_with_their_block() {
        let mut frame = vec![0_u8; ETHERNET];
        frame.extend([0x45, 16 << 2, 0, 44, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([[0, 9].as_slice(), &PORT.to_be_bytes(), &[0, 24, 0, 0]].concat());
        frame.extend([9_u64.to_be_bytes(), [0; 8]].concat());
        assert_eq!(numbered(&frame), Some(9));
        let asked = asked(ALL);
        let schedule = asked.schedule(asked.period).unwrap();
        // The second mark seen in block 4: it belongs to block 3 near the beginning, to block 5 near the end.
        let seen = |within| {
            let time = schedule.begin(4) + within;
            marked(&frame, time, &asked, &schedule)
        };
        assert_eq!((seen(10), seen(asked.period - 10)), (Some((3, true)), Some((5, true))));
        frame[ETHERNET + 1] = 0;
        let unmarked = marked(&frame, schedule.begin(4), &asked, &schedule);
        assert_eq!(unmarked, None);
        assert_eq!(numbered(&frame[..HEADERS]), None);
    }
}
