//! Cost of a point per packet: nanoseconds of its program in test runs of the kernel, minus those of the
//! empty program on the same frame, measured right before it.
//!
//! A sampling program selects a packet or not. Both kinds are measured separately, over packets that the
//! reference classifies, and weighted by the hash's probability. Test runs repeat one frame, so caches are
//! warm.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use anyhow::{Context, Result, bail};
use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Config, Marking, Trial};
use netloom_marking::session::{BodyFilter, Sampling};
use netloom_marking::{Offload, Packet, Schedule};

use super::asked::{ALL, DUMMY, FIXED, Kind, MARKS, configuration};

/// Runs of a program over a frame.
const REPEAT: u32 = 1_000_000;
/// Parts of those runs, of which the quickest counts.
const PARTS: u32 = 5;
/// Packets of each kind, and runs over each: fewer over selected ones, which take up space.
const MIXED: usize = 8;
const MIXED_REPEATS: [u32; 2] = [4096, REPEAT / 8];
/// Most samples that all those runs leave in one block.
const SAMPLES: u32 = 1 << 18;
/// Ports of the first filter; others use higher source ports.
const PORTS: [u16; 2] = [10_000, 80];
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// Nanoseconds of a block, where each run is to find either mark: some runs.
const SHORT: u64 = 200;
/// Bytes of a frame without its check sequence.
const FRAME: usize = 60;

/// The packets that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    /// Matching no filter.
    Unmatched,
    /// Matching the last filter.
    Matched,
    /// Matching one filter, with the share selected that the hash selects.
    Mixed,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) kind: Kind,
    pub(super) filters: u16,
    /// TAI, as for points on several machines; otherwise the monotonic clock.
    pub(super) tai: bool,
    pub(super) place: PointKind,
}

/// Where a point is, and whether it marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PointKind {
    /// Where packets arrive.
    In,
    /// Where they leave, and are marked: most have their mark already.
    Marks,
    /// The same with blocks so short that each run finds either mark, so that half of the packets get another.
    Rewrites,
}

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    pub(super) point: Point,
    pub(super) seen: Seen,
}

/// Cost of a program with this many filters, on the monotonic clock.
pub(super) fn cost(kind: Kind, filters: u16, seen: Seen) -> Cost {
    Cost { point: Point { kind, filters, tai: false, place: PointKind::In }, seen }
}

/// Cost of the program that counts all, with one filter, where packets leave.
pub(super) fn egress(place: PointKind, seen: Seen) -> Cost {
    Cost { point: Point { kind: ALL, filters: 1, tai: false, place }, seen }
}

/// Cells that feed values and ratios.
pub(super) fn quick() -> Vec<Cost> {
    vec![
        cost(ALL, 1, Seen::Unmatched),
        cost(ALL, 1, Seen::Matched),
        cost(ALL, 10_000, Seen::Matched),
        cost(ALL, 1, Seen::Mixed),
        cost(FIXED, 1, Seen::Mixed),
        egress(PointKind::Marks, Seen::Unmatched),
        egress(PointKind::Marks, Seen::Matched),
        egress(PointKind::Rewrites, Seen::Matched),
    ]
}

/// Cells that are only shown as rows.
pub(super) fn rest() -> Vec<Cost> {
    let mut all = vec![cost(ALL, 10_000, Seen::Unmatched)];
    for filters in [10, 1000] {
        all.extend([Seen::Unmatched, Seen::Matched].map(|seen| cost(ALL, filters, seen)));
    }
    let hashes = ["ipsx", "crc32"].map(|hash| Kind { hash: Some(hash), ..FIXED });
    // Without the third program: it selects by hash frequency, and a test run repeats one hash.
    all.extend(
        hashes.into_iter().chain([FIXED.numbered(4)]).map(|kind| cost(kind, 1, Seen::Mixed)),
    );
    let arriving = quick().into_iter().filter(|cost| cost.point.place == PointKind::In);
    let tai = arriving.map(|cost| Cost { point: Point { tai: true, ..cost.point }, ..cost });
    all.extend(tai);
    all
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { kind, filters, tai, place } = self.point;
        let seen = match self.seen {
            Seen::Unmatched => "unmatched",
            Seen::Matched => "matched",
            Seen::Mixed => "mixed",
        };
        write!(
            f,
            "{seen} packet, {kind}, {filters} filter{}",
            if filters == 1 { "" } else { "s" }
        )?;
        f.write_str(match place {
            PointKind::In => "",
            PointKind::Marks => ", marking",
            PointKind::Rewrites => ", re-marking every other time",
        })?;
        if tai { f.write_str(", TAI") } else { Ok(()) }
    }
}

/// Loaded points.
pub(super) struct Trials {
    empty: Trial,
    points: BTreeMap<Point, Trial>,
    /// Packets by hash function: selected and others.
    mixed: BTreeMap<&'static str, [Vec<Vec<u8>>; 2]>,
}

impl Trials {
    /// Loads the programs for these costs.
    pub(super) fn load(costs: &[Cost]) -> Result<Trials> {
        let empty = load(cost(DUMMY, 1, Seen::Matched).point)?;
        let mut trials = Trials { empty, points: BTreeMap::new(), mixed: BTreeMap::new() };
        for cost in costs {
            let point = cost.point;
            if let Entry::Vacant(place) = trials.points.entry(point) {
                place.insert(load(point).with_context(|| cost.to_string())?);
            }
            let hash = hash_of(point.kind);
            if cost.seen == Seen::Mixed
                && let Entry::Vacant(place) = trials.mixed.entry(hash)
            {
                place.insert(mixed(hash)?);
            }
        }
        Ok(trials)
    }

    /// Nanoseconds per packet.
    pub(super) fn measure(&self, cost: Cost) -> Result<f64> {
        let trial = self.points.get(&cost.point).context("a point that is not loaded")?;
        let [_, last] = ports(cost.point.filters);
        match cost.seen {
            Seen::Unmatched => self.over(trial, &frame([PORTS[0], 81], 0), REPEAT),
            Seen::Matched => self.over(trial, &frame([last, PORTS[1]], 0), REPEAT),
            Seen::Mixed => self.over_both(trial, hash_of(cost.point.kind)),
        }
    }

    /// Time of a program on a frame, minus that of the empty program: the least of some parts of the runs each,
    /// so that what interrupts one part does not count.
    fn over(&self, trial: &Trial, frame: &[u8], repeat: u32) -> Result<f64> {
        let part = repeat.div_ceil(PARTS);
        let nothing = self.empty.nanoseconds(frame, None, part, PARTS)?;
        Ok(trial.nanoseconds(frame, None, part, PARTS)? - nothing)
    }

    fn over_both(&self, trial: &Trial, hash: &'static str) -> Result<f64> {
        let frames = self.mixed.get(hash).context("packets that are not chosen")?;
        let mean = |kind: usize| -> Result<f64> {
            let (frames, repeat) = (&frames[kind], MIXED_REPEATS[kind]);
            let each = frames.iter().map(|frame| self.over(trial, frame, repeat));
            #[expect(clippy::cast_precision_loss, reason = "a few")]
            Ok(each.sum::<Result<f64>>()? / frames.len() as f64)
        };
        let [selected, others] = [mean(0)?, mean(1)?];
        let share = sampling(hash)?.selection.threshold().rate();
        Ok(selected * share + others * (1.0 - share))
    }

    /// Checks that all selected packets had room: without room, a sample costs less.
    pub(super) fn check(&mut self) -> Result<()> {
        let blocks = configuration(&ALL.body(1.0, filters(1)))?;
        let blocks = blocks.schedule(blocks.period)?;
        for (point, trial) in self.points.iter_mut().filter(|(point, _)| point.kind.hash.is_some())
        {
            let trial = trial.point();
            let last = blocks.block_at(trial.now()).context("a clock before its first block")?;
            for block in last.saturating_sub(2)..=last {
                let flows = trial.read_bank(block)?;
                if flows.iter().any(|f| f.sampled.as_ref().is_some_and(|s| s.unkept > 0)) {
                    bail!("{}: no room for its samples", point.kind);
                }
            }
        }
        Ok(())
    }
}

/// Source ports of the first and the last of this many filters.
fn ports(filters: u16) -> [u16; 2] {
    [PORTS[0], PORTS[0] + filters.saturating_sub(1)]
}

/// The hash of a kind, or the hash whose packets serve for its comparison.
fn hash_of(kind: Kind) -> &'static str {
    kind.hash.unwrap_or("bob")
}

fn filters(count: u16) -> Vec<BodyFilter> {
    let [first, last] = ports(count);
    let filter = |port: u16| BodyFilter {
        id: port.into(),
        src_ip: Some("10.0.0.1".to_owned()),
        dst_ip: Some("10.0.0.2".to_owned()),
        proto: Some("udp".to_owned()),
        src_port: Some(port),
        dst_port: Some(PORTS[1]),
    };
    (first..=last).map(filter).collect()
}

fn load(point: Point) -> Result<Trial> {
    let configuration = configuration(&point.kind.body(1.0, filters(point.filters)))?;
    let schedule = configuration.schedule(configuration.period)?;
    let clock = if point.tai { Clock::Tai } else { Clock::Monotonic };
    let config = Config { clock, samples: SAMPLES, ..Config::of(&configuration, schedule) };
    if point.place == PointKind::In {
        return Ok(Trial::load(&config, Direction::Ingress)?);
    }
    let schedule =
        if point.place == PointKind::Rewrites { Schedule::new(SHORT, SHORT, 0)? } else { schedule };
    let config = Config { marking: Marking::Single, schedule, ..config };
    Ok(Trial::load(&config, Direction::Egress)?)
}

fn sampling(hash: &'static str) -> Result<Sampling> {
    let kind = Kind { hash: Some(hash), ..FIXED };
    configuration(&kind.body(1.0, filters(1)))?.sampling.context("it does not sample")
}

/// Packets of the first filter: those that a hash selects, and others.
fn mixed(hash: &'static str) -> Result<[Vec<Vec<u8>>; 2]> {
    let sampling = sampling(hash)?;
    let mut found = [vec![], vec![]];
    for number in 0..100_000_u64 {
        let frame = frame(PORTS, number);
        let packet = Packet::parse(&frame[14..]).context("a frame of ours is none")?;
        let selected =
            sampling.selection.selects(sampling.hasher.hash(&packet, Offload::default())?);
        let [chosen, others] = &mut found;
        let place = if selected { chosen } else { others };
        if place.len() < MIXED {
            place.push(frame);
        }
        if found.iter().all(|found| found.len() == MIXED) {
            return Ok(found);
        }
    }
    bail!("{hash}: selects nothing, or all")
}

/// A datagram with the first mark, whose data starts with a number. Its checksums are 0, since nothing here
/// checks them.
fn frame([from, to]: [u16; 2], number: u64) -> Vec<u8> {
    let be = u16::to_be_bytes;
    let [length, data] = [FRAME - 14, FRAME - 34].map(|n| be(u16::try_from(n).unwrap_or(0)));
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, MARKS[0] << 2];
    frame.extend([length, be(7), be(0x4000)].concat());
    frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([be(from), be(to), data, [0; 2]].concat());
    debug_assert_eq!(frame.len(), HEADERS);
    frame.extend(number.to_be_bytes());
    frame.resize(FRAME, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_packets_of_their_filters() {
        let [first, last] = ports(10_000);
        let found = |ports, number| {
            let frame = frame(ports, number);
            assert_eq!(frame.len(), FRAME);
            let packet = Packet::parse(&frame[14..]).unwrap();
            assert_eq!(packet.traffic_class() >> 2, MARKS[0]);
            let key = netloom_marking::Key::of(&packet);
            let all = configuration(&ALL.body(1.0, filters(10_000))).unwrap().plain_filters();
            netloom_marking::filter::find(&all, netloom_marking::Precedence::First, &key)
        };
        assert_eq!((found([first, 80], 0), found([last, 80], 1)), (Some(0), Some(9_999)));
        assert_eq!(found([first, 81], 2), None);
    }

    #[test]
    fn packets_of_both_kinds_are_found_for_every_hash() {
        for hash in netloom_marking::HashFunction::NAMES {
            let [selected, others] = mixed(hash).unwrap();
            assert_eq!((selected.len(), others.len()), (MIXED, MIXED), "{hash}");
            assert!(selected.iter().all(|frame| !others.contains(frame)));
            let share = sampling(hash).unwrap().selection.threshold().rate();
            assert!((share - 1.0 / 64.0).abs() < 1e-12);
        }
    }

    #[test]
    fn no_cost_is_measured_twice_and_each_has_words_of_its_own() {
        let mut all = quick();
        all.extend(rest());
        let mut words: Vec<String> = all.iter().map(Cost::to_string).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        words.sort_unstable();
        words.dedup();
        assert_eq!((all.len(), words.len()), (count, count));
    }
}
