//! A point's program, loaded with its constants, and its maps.

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapInfo, OpenObject};
use netloom_marking::session::Program as Kind;
use netloom_marking::{Colour, HashFunction, Mark, Marks, Profile};
use netloom_sys::Failure;

use super::link::{LinkHeader, Side};
use super::{Clock, Config, Counts, MOST_SAMPLE_BYTES, Marking};
use crate::load::{Loaded, Part, set_entries};
use crate::map::{Map, refused};
use crate::program::Program;
use crate::{Direction, Error, Result};

const PART: Part =
    Part { name: "measure", object: include_bytes!(concat!(env!("OUT_DIR"), "/measure.bpf.o")) };
const XDP_PART: Part = Part {
    name: "measure by XDP",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/measure_xdp.bpf.o")),
};

const CACHE4: &str = "nl_me_cache4";
const CACHE6: &str = "nl_me_cache6";
const FILTERS: &str = "nl_me_filters";
const MASKS: &str = "nl_me_masks";
const ACTIVE: &str = ".data.active";
const START: &str = ".data.start";
const CPUS: &str = "nl_me_cpus";
const COUNTS: &str = "nl_me_counts";
const TWICE: &str = "nl_me_twice";
const JOINS: &str = "nl_me_joins";
const SAMPLES: &str = "nl_me_samples";

/// Bytes of a sample table's header, and of a sample.
pub(super) const TABLE: usize = 32;
pub(super) const SAMPLE: usize = 16;
/// Banks of a flow.
pub(super) const BANKS: u32 = 4;

/// The maps of a point.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) caches: [Map; 2],
    pub(super) filters: Map,
    pub(super) masks: Map,
    pub(super) active: Map,
    pub(super) start: Map,
    pub(super) twice: Map,
    pub(super) joins: Map,
    counts: MapHandle,
    cpus: MapHandle,
    samples: MapHandle,
    /// Number of possible CPUs.
    pub(super) possible: u32,
    /// Samples that a table has room for.
    pub(super) most: usize,
}

/// A configuration's requirements for sample tables.
struct Room {
    tables: u32,
    most: u32,
}

impl Room {
    fn of(config: &Config, possible: u32) -> Result<Room> {
        let Some(sampling) = config.sampling() else { return Ok(Room { tables: 1, most: 1 }) };
        let most = sampling.npkts.unwrap_or(config.samples).max(1);
        let tables = u64::from(config.room()) * u64::from(BANKS) * u64::from(possible);
        let bytes = tables.saturating_mul(value(most) as u64);
        let tables = u32::try_from(tables).ok().filter(|_| bytes <= MOST_SAMPLE_BYTES);
        let reason = "their samples would take more than 1 GiB: ask for fewer flows or samples";
        let tables = tables.ok_or(Error::Unknown { object: "flows".to_owned(), reason })?;
        Ok(Room { tables, most })
    }
}

/// Bytes of a table: room for one sample more than is kept.
fn value(most: u32) -> usize {
    TABLE + SAMPLE * (usize::try_from(most).unwrap_or(usize::MAX >> 8) + 1)
}

/// Loads the program of a place.
pub(super) fn load(place: Side, config: &Config, header: LinkHeader) -> Result<(Program, Maps)> {
    let possible = libbpf_rs::num_possible_cpus().map_err(std::io::Error::other);
    let possible = possible.map_err(|e| Failure::new("CPUs", "count", e))?;
    let possible = u32::try_from(possible).unwrap_or(u32::MAX);
    let room = Room::of(config, possible)?;
    let (part, name) = match place {
        Side::Tc(Direction::Ingress) => (PART, "nl_me_in"),
        Side::Tc(Direction::Egress) => (PART, "nl_me_eg"),
        Side::Xdp => (XDP_PART, "nl_me_xdp"),
    };
    let loaded = part.load(|open| {
        for mut program in open.progs_mut() {
            // Each program costs the verifier's time, and a point runs one.
            let wanted = program.name() == name;
            program.set_autoload(wanted);
        }
        size(open, config, &room)?;
        fill(open, ".rodata.options", &constants(config, header, room.most))?;
        fill(open, ".rodata.crc", &crc_tables())
    })?;
    Ok((loaded.program(name)?, maps(&loaded, possible, room.most)?))
}

fn size(open: &mut OpenObject, config: &Config, room: &Room) -> libbpf_rs::Result<()> {
    let flows = config.room();
    for name in [CACHE4, CACHE6] {
        set_entries(open, name, config.cache.max(1))?;
    }
    // The active set of tables and the next one are in the same map.
    set_entries(open, FILTERS, config.filter_room().saturating_mul(2))?;
    set_entries(open, COUNTS, flows.saturating_mul(BANKS))?;
    set_entries(open, TWICE, flows)?;
    set_entries(open, JOINS, flows)?;
    set_entries(open, SAMPLES, room.tables)?;
    let bytes = u32::try_from(value(room.most)).unwrap_or(u32::MAX);
    match open.maps_mut().find(|map| map.name() == SAMPLES) {
        Some(mut map) => map.set_value_size(bytes),
        None => Ok(()),
    }
}

/// Writes constants.
fn fill(open: &mut OpenObject, name: &str, bytes: &[u8]) -> libbpf_rs::Result<()> {
    let mut maps = open.maps_mut();
    let mut map = maps.find(|map| map.name() == name);
    match map.as_mut().and_then(|map| map.initial_value_mut()) {
        Some(value) if value.len() == bytes.len() => {
            value.copy_from_slice(bytes);
            Ok(())
        }
        _ => Err(std::io::Error::from(std::io::ErrorKind::InvalidData).into()),
    }
}

/// `struct nl_me_options`.
fn constants(config: &Config, header: LinkHeader, most: u32) -> Vec<u8> {
    let sampling = config.sampling();
    let schedule = &config.schedule;
    let dynamic = sampling.is_some_and(|sampling| sampling.npkts.is_some());
    let selection = sampling.map(|sampling| sampling.selection);
    let threshold = selection.map_or(0, |selection| selection.threshold().value());
    let longs = [schedule.period(), schedule.guard(), threshold];
    let hasher = sampling.map(|sampling| sampling.hasher);
    // The distance 0 belongs to match_value.
    let match_value = selection.map_or(0, |selection| selection.distance(0).reverse_bits());
    let length = selection.map_or(0, |selection| selection.threshold().hash_length());
    // A length of 32 has all bits, which the shift alone does not give.
    let low_mask = 1u32.checked_shl(length.into()).map_or(u32::MAX, |bit| bit - 1);
    let [starter, next, mask, delay] = dscp(&config.marks);
    let part = hasher.map(|hasher| hasher.payload).unwrap_or_default();
    let words = [
        program(config.program),
        match config.clock {
            Clock::Tai => 0,
            Clock::Monotonic => 1,
            Clock::Frame => 2,
        },
        if header == LinkHeader::Ethernet { 14 } else { 0 },
        config.room(),
        starter,
        next,
        mask,
        delay,
        match config.marking {
            Marking::Off => 0,
            Marking::Single => 1,
            Marking::Double => 2,
        },
        hasher.map_or(0, |hasher| match hasher.function {
            HashFunction::Bob => 1,
            HashFunction::Ipsx => 2,
            HashFunction::Crc32 => 3,
        }),
        hasher.map_or(0, |hasher| match hasher.profile {
            Profile::Rfc5475 => 0,
            Profile::Source => 1,
            Profile::Portable => 2,
        }),
        hasher.map_or(0, |hasher| hasher.seed),
        part.offset.into(),
        part.size.min(netloom_marking::PayloadPart::MOST).into(),
        match_value,
        low_mask,
        dynamic.into(),
        most,
        0,
        0,
    ];
    let longs = longs.iter().flat_map(|word| word.to_ne_bytes());
    longs.chain(words.iter().flat_map(|word| word.to_ne_bytes())).collect()
}

fn program(kind: Kind) -> u32 {
    match kind {
        Kind::Empty => 0,
        Kind::All => 1,
        Kind::Fixed => 2,
        Kind::Dynamic => 3,
        Kind::Combined => 4,
    }
}

/// The DSCP values of marks: starter, next, mask, delay.
fn dscp(marks: &Marks) -> [u32; 4] {
    let write = |class, colour, double| marks.write(class, Mark { colour, double });
    let starter = write(0, Colour::Starter, false);
    let next = write(0, Colour::Next, false);
    // All ones come back where a mark leaves the class as it is.
    let kept = write(0xff, Colour::Starter, false) & !starter;
    let delay = write(0, Colour::Starter, true) & !starter;
    [starter, next, !kept, delay].map(|class| u32::from(class >> 2))
}

/// CRC-32 of IEEE 802.3 of each byte value, followed by 0 to 7 zero bytes (`nl_me_crc`).
fn crc_tables() -> Vec<u8> {
    // The polynomial with its bits reversed, because Ethernet sends the lowest bit first.
    let bit = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    let byte = |crc: u32| (0..8).fold(crc, |crc, _| bit(crc));
    // So a step takes several bytes by look-ups that do not wait for each other.
    let behind = |count: usize| (0..256).map(move |of| (0..=count).fold(of, |crc, _| byte(crc)));
    (0..8).flat_map(behind).flat_map(u32::to_ne_bytes).collect()
}

fn maps(loaded: &Loaded, possible: u32, most: u32) -> Result<Maps> {
    Ok(Maps {
        caches: [loaded.map(CACHE4)?, loaded.map(CACHE6)?],
        filters: loaded.map(FILTERS)?,
        masks: loaded.map(MASKS)?,
        active: loaded.map(ACTIVE)?,
        start: loaded.map(START)?,
        twice: loaded.map(TWICE)?,
        joins: loaded.map(JOINS)?,
        counts: handle(loaded, COUNTS)?,
        cpus: handle(loaded, CPUS)?,
        samples: handle(loaded, SAMPLES)?,
        possible,
        most: usize::try_from(most).unwrap_or(0),
    })
}

fn handle(loaded: &Loaded, name: &'static str) -> Result<MapHandle> {
    let map = loaded.map(name)?;
    let info = MapInfo::new(map.fd()).map_err(refused(name, "ask about"))?;
    MapHandle::from_map_id(info.info.id).map_err(refused(name, "duplicate"))
}

fn percpu(handle: &MapHandle, name: &'static str, index: u32) -> Result<Vec<Vec<u64>>> {
    let found = handle.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
    let found = found.map_err(refused(name, "look up"))?.unwrap_or_default();
    Ok(found.iter().map(|bytes| words(bytes)).collect())
}

/// Bytes as machine words.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

impl Maps {
    /// Each CPU's counters at this index (`struct nl_me_count`).
    pub(super) fn count(&self, index: u32) -> Result<Vec<Vec<u64>>> {
        percpu(&self.counts, COUNTS, index)
    }

    /// A table of samples (`struct nl_me_table`).
    pub(super) fn table(&self, index: u32) -> Result<Vec<u8>> {
        let found = self.samples.lookup(&index.to_ne_bytes(), MapFlags::ANY);
        Ok(found.map_err(refused(SAMPLES, "look up"))?.unwrap_or_default())
    }

    /// Clears a slot's counters; `flows` is the number of slots.
    pub(super) fn clear(&self, slot: u32, flows: u32, sampled: bool) -> Result<()> {
        // `struct nl_me_count` is of 128 bytes.
        let none: Vec<Vec<u8>> = (0..self.possible).map(|_| vec![0; 128]).collect();
        for index in (slot * BANKS..).take(4) {
            self.counts
                .update_percpu(&index.to_ne_bytes(), &none, MapFlags::ANY)
                .map_err(refused(COUNTS, "clear"))?;
        }
        self.twice.put(&slot.to_ne_bytes(), &[0])?;
        if !sampled {
            return Ok(());
        }
        let empty = vec![0; TABLE + SAMPLE * (self.most + 1)];
        for cpu in 0..self.possible {
            for index in ((cpu * flows + slot) * BANKS..).take(4) {
                self.samples
                    .update(&index.to_ne_bytes(), &empty, MapFlags::ANY)
                    .map_err(refused(SAMPLES, "clear"))?;
            }
        }
        Ok(())
    }

    /// Whether there are tables of samples.
    pub(super) fn is_sampled(&self) -> bool {
        self.most > 1
    }

    pub(super) fn counts(&self) -> Result<Counts> {
        let mut sums = [0u64; 10];
        for cpu in percpu(&self.cpus, CPUS, 0)? {
            sums.iter_mut().zip(cpu).for_each(|(sum, count)| *sum = sum.wrapping_add(count));
        }
        // In between are the clock's words.
        let [other, unmatched, unmarked, outside, searched, overflow, unwritten, _, _, aside] =
            sums;
        Ok(Counts { other, unmatched, unmarked, outside, searched, overflow, unwritten, aside })
    }

    pub(super) fn forget(&self) -> Result<()> {
        for cache in &self.caches {
            for key in cache.keys() {
                cache.remove(&key)?;
            }
        }
        Ok(())
    }
}
