//! Limits: of a period, of kernel memory, of process memory.
//!
//! A block must be read between its end and the reuse of its bank (`netloom_marking::Schedule::reused`), and
//! one block must be read every period. The reading time is an upper estimate from the number of flows and
//! points.

use netloom_ebpf::measure::FlowBlock;
use netloom_marking::BANKS;
use netloom_marking::session::{Configuration, Program, Sampling};

use crate::{Error, Result, Setup};

/// Nanoseconds to read: a point, a flow in it, and a byte of samples.
const READ_POINT: u64 = 200_000;
const READ_FLOW: u64 = 10_000;
const READ_BYTE: u64 = 1;
/// Nanoseconds to forget a flow.
const FORGET_FLOW: u64 = 1_000;
/// Time for running programs to finish.
const SETTLE: u64 = 1_000_000;

/// Kernel memory in bytes for counts and samples of all points of a session.
const MOST_KERNEL: u64 = 1 << 30;
/// Bytes for the blocks that a probe's session keeps.
const MOST_KEPT: u64 = 1 << 28;
/// Samples of a flow and block on each CPU, where the number is not given.
const SAMPLES: (u64, u64) = (16, 4_096);
/// Flows of each family in a point's lookup cache, and in all points of a session together.
const CACHE: (u64, u64) = (1_024, 65_536);
const MOST_CACHE: u64 = 1 << 20;
/// Minimum and maximum number of blocks kept.
const KEEP: (u64, u64) = (4, 4_096);
/// Bytes: counts of a flow, bank and CPU; a sample; a cached flow of both families.
const COUNT: u64 = 128;
const SAMPLE: u64 = 16;
const FOUND: u64 = 192;
/// Upper limit in bytes for all sessions of a probe together.
pub(crate) const MOST_TOGETHER: u64 = 4 << 30;

/// Table sizes of each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) cache: u32,
    pub(crate) samples: u32,
}

fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// How packets are sampled, if they are.
fn sampling(configuration: &Configuration) -> Option<Sampling> {
    match configuration.program {
        Program::Empty | Program::All => None,
        Program::Fixed | Program::Dynamic | Program::Combined => configuration.sampling,
    }
}

/// Table sizes of a session's points.
///
/// # Errors
/// Flows, points and samples together need too much memory.
pub(crate) fn room(setup: &Setup, cpus: u64) -> Result<Room> {
    let configuration = &setup.configuration;
    let points = number(setup.spots.len()).max(1);
    let flows = setup.room().max(1);
    // Per-CPU maps: each CPU has a copy of every count and sample.
    let tables = points.saturating_mul(flows).saturating_mul(BANKS * cpus.max(1));
    let left = MOST_KERNEL.saturating_sub(tables.saturating_mul(COUNT));
    let most = left / tables / SAMPLE;
    let samples = match sampling(configuration).map(|sampling| sampling.npkts) {
        None => 0,
        Some(Some(given)) => u64::from(given),
        Some(None) => most.clamp(SAMPLES.0, SAMPLES.1),
    };
    if left == 0 || samples > most {
        let object = format!("{flows} filters at {points} points");
        let reason = "their counts and samples would take more than 1 GiB: measure fewer flows, at \
                      fewer interfaces, or with fewer samples";
        return Err(Error::Invalid { object, reason: reason.to_owned() });
    }
    let cache = (MOST_CACHE / points).clamp(CACHE.0, CACHE.1);
    let cache = if setup.cache == 0 { small(cache) } else { setup.cache };
    Ok(Room { cache, samples: small(samples) })
}

/// How many flows fit into this many bytes of kernel memory, and can be read in half a period.
pub fn flows_that_fit(setup: &Setup, bytes: u64) -> u32 {
    // The most that a session takes where no number is given.
    let cpus = cpus();
    let samples = sampling(&setup.configuration).map_or(0, |s| s.npkts.unwrap_or(4_096));
    let room = Room { cache: 1, samples };
    let points = number(setup.spots.len()).max(1);
    let flow = points * BANKS * cpus * (COUNT + u64::from(samples) * SAMPLE);
    let read = |flows: u32| reading(&Setup { flows, ..setup.clone() }, room, cpus);
    let (none, one) = (read(0), read(small(setup.room().saturating_add(1))));
    let each = one.saturating_sub(none).max(1);
    let left = (setup.configuration.period / 2).saturating_sub(none);
    small(setup.room().saturating_add(left / each).min(bytes / flow))
}

/// Upper estimate of the time to read a block at all points, in nanoseconds.
fn reading(setup: &Setup, room: Room, cpus: u64) -> u64 {
    let flows = setup.room();
    let sampled = match sampling(&setup.configuration) {
        None => 0,
        Some(_) => cpus * (u64::from(room.samples) * SAMPLE * READ_BYTE + READ_FLOW),
    };
    let flow = READ_FLOW + sampled;
    number(setup.spots.len()).saturating_mul(READ_POINT.saturating_add(flows.saturating_mul(flow)))
}

/// Checks that blocks can be told apart and read in time. `tick` is the coarse clock's resolution.
///
/// # Errors
/// [`Error::Period`], which names the shortest possible period.
pub(crate) fn check_period(setup: &Setup, room: Room, cpus: u64, tick: u64) -> Result<()> {
    let Configuration { period, guard, program, .. } = setup.configuration;
    // A program that keeps times of all packets reads the exact clock.
    let tick = if program == Program::All { 0 } else { tick };
    // RFC 9341, section 5: d < L/2, where d includes what the coarse clock lags.
    let apart = guard.saturating_add(tick).saturating_add(SETTLE).saturating_mul(2) + 1;
    let reading = reading(setup, room, cpus);
    // Guard and tick take less than half of the two and a half periods before a bank is reused.
    let read = reading.max((reading + tick + SETTLE) / 2);
    if period >= apart.max(read) {
        return Ok(());
    }
    let (least, reason, remedy) = if apart >= read {
        let grain = if tick == 0 { "" } else { " and a tick of the coarse clock" };
        let reason = format!(
            "packets may come a guard of {guard} ns{grain} late and must still be nearer to their own \
             block than to another"
        );
        (apart, reason, "a smaller guard")
    } else {
        let (flows, points) = (setup.room(), setup.spots.len());
        let reason = format!(
            "each period the counts of {flows} filters at {points} points are read, which may take \
             {reading} ns"
        );
        (read, reason, "fewer filters or points")
    };
    Err(Error::Period { period, least, reason, remedy })
}

/// Bytes of a block that is kept.
fn block(configuration: &Configuration, points: usize) -> u64 {
    let samples = match sampling(configuration) {
        None => 0,
        Some(sampling) => sampling.npkts.map_or(SAMPLES.1, u64::from),
    };
    let flow = number(size_of::<FlowBlock>()) + samples * SAMPLE;
    let flows = number(configuration.flows());
    number(points).saturating_mul(flows).saturating_mul(flow).max(1)
}

/// Number of blocks of a session that a probe keeps.
pub(crate) fn keep(configuration: &Configuration, points: usize) -> usize {
    let blocks = MOST_KEPT / block(configuration, points);
    usize::try_from(blocks.clamp(KEEP.0, KEEP.1)).unwrap_or(usize::MAX)
}

/// Maximum memory of a session in bytes, in the kernel and in this process.
///
/// # Errors
/// As [`room`].
pub(crate) fn takes(setup: &Setup, cpus: u64) -> Result<u64> {
    let room = room(setup, cpus)?;
    let points = number(setup.spots.len());
    let tables = points.saturating_mul(setup.room()).saturating_mul(BANKS * cpus.max(1));
    let counted = tables.saturating_mul(COUNT + u64::from(room.samples) * SAMPLE);
    let found = points.saturating_mul(u64::from(room.cache) * FOUND);
    let block = block(&setup.configuration, setup.spots.len());
    let kept = number(setup.keep).saturating_mul(block);
    Ok(counted.saturating_add(found).saturating_add(kept))
}

/// Cache misses after which a full flow cache is emptied: as many as it has entries, provided that emptying
/// takes only part of a period.
pub(crate) fn patience(period: u64, cache: u32) -> Option<u64> {
    let cache = u64::from(cache);
    (cache.saturating_mul(2 * FORGET_FLOW) <= period / 4).then_some(cache)
}

/// Number of worker threads.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// CPUs that this kernel may ever run.
pub(crate) fn cpus() -> u64 {
    // Per-CPU maps have a value for each possible CPU, also for those that are offline.
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u64>().ok());
    last.map_or_else(|| number(workers()), |last| last + 1)
}

#[cfg(test)]
mod tests;
