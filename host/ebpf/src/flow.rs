//! The fast path of a switch: frames whose result is known are treated in the kernel.
//!
//! A [`Flow`] holds the programs and maps of one switch. [`Flow::attach`] makes an interface a port of it;
//! [`Flow::install`] keeps a result of the pipeline (`netloom_pipeline::Trace`) for all packets that agree in what was
//! consulted, under a slot whose counters [`Flow::counts`] reads; frames without a result go to [`Flow::upcalls`].
//!
//! * A result counts only while its generation is that of [`Flow::set_generation`]. When that, [`Flow::remove`] or
//!   [`Flow::settle`] has returned, no frame is treated by what was before, and the counters of what was are final:
//!   programs say when they run, and these calls wait for all runs that began earlier. So a barrier may be
//!   answered then: whatever an older result sent is on its way, as if it had left before.
//! * Super-frames stay whole and checksums unfinished. What programs cannot do exactly is not a [`List`].
//! * Programs are attached without links, as everywhere here: they forward on without any process, and
//!   [`Flow::reopen`] finds them, their results and counters again.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use netloom_pipeline::FlowKey;

use crate::attach::{self, Direction, Hook, Order};
use crate::map::Map;
use crate::program::Program;
use crate::{Error, Result};

mod beside;
mod chunks;
mod index;
mod list;
mod loading;
mod masks;
mod near;
mod operations;
mod shared;
mod trial;
mod upcalls;

pub use beside::{Attacher, Carried, one_tag_at_most};
pub use list::List;
pub use loading::Options;
use loading::load;
pub(crate) use loading::probe;
use masks::{Compared, Masks};
use near::Near;
use operations::Operations;
use shared::Shared;
pub use trial::{Ran, Trial};
pub use upcalls::{Upcall, Upcalls};

/// The program at an interface's receiving side.
const PROGRAM: &str = attach::END;
const PORTS: &str = "nl_fl_ports";
const WORD: usize = size_of::<u64>();
/// Words of `struct nl_fl_port`.
const PORT_WORDS: usize = 8;

/// How many frames of a port may become upcalls. One of more than 256 bytes counts as 4, one of more than 2,048 as 128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Frames a second; 0: no limit.
    pub rate: u32,
    /// Frames at once.
    pub burst: u32,
}

/// Counters of a port's upcalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that became upcalls.
    pub upcalls: u64,
    /// Frames beyond the port's limit.
    pub limited: u64,
    /// Frames that found the ring full.
    pub full: u64,
    /// Frames longer than an upcall can be.
    pub long: u64,
}

/// What a result has forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets; a super-frame counts as those that it stands for.
    pub packets: u64,
    /// Their bytes as they came in, each with its headers.
    pub bytes: u64,
    /// When the last came: CLOCK_MONOTONIC_COARSE, in nanoseconds, a tick of the kernel before that at most; 0: none did.
    pub used: u64,
}

/// Counters of the programs, of all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames found by what was found last for their whole key.
    pub exact: u64,
    /// Frames found by a mask.
    pub masked: u64,
    /// Frames without a result.
    pub missed: u64,
    /// Frames, or copies, lost because the kernel refused to change or send them.
    pub failed: u64,
}

/// A result to keep.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Where it is kept and counted, below [`Options::results`]. An earlier result there is removed.
    pub slot: u32,
    /// Its generation.
    pub generation: u64,
    /// The key of a packet.
    pub key: &'a FlowKey,
    /// The bits of it that must agree.
    pub mask: &'a FlowKey,
    /// What is done.
    pub list: &'a List,
}

/// A result that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its slot.
    pub slot: u32,
    /// The bits that must agree, others zero.
    pub key: FlowKey,
    /// Which they are.
    pub mask: FlowKey,
    /// What [`Flow::note`] put down.
    pub noted: Count,
}

/// Facts about a cached result.
#[derive(Clone, Debug)]
struct Record {
    mask: u8,
    compared: Compared,
    list: u32,
    generation: u64,
}

/// The maps, as handles and memory.
struct Maps {
    ports: Map,
    near: Near,
    shared: Shared,
    upcalls: Upcalls,
    carried: beside::Counters,
}

impl Maps {
    fn find(map: &dyn Fn(&'static str) -> Result<Map>) -> Result<Maps> {
        Ok(Maps {
            ports: checked(map(PORTS)?, 4, PORT_WORDS * WORD, PORTS)?,
            near: Near::map(map)?,
            shared: Shared::map(map)?,
            upcalls: Upcalls::map(map)?,
            carried: beside::Counters::map(map)?,
        })
    }
}

/// The fast path of one switch. Dropping it changes nothing.
#[derive(Debug)]
pub struct Flow {
    hook: Hook,
    program: Program,
    /// The program of taps beside ports, if it is at hand.
    out: Option<Program>,
    ports: Map,
    near: Near,
    shared: Shared,
    upcalls: Upcalls,
    carried: beside::Counters,
    masks: Masks,
    operations: Operations,
    /// Results by slot; those of an older generation are removed as room is needed.
    kept: HashMap<u32, Record>,
    /// How many are of the current generation.
    fresh: usize,
    /// Slots that may have a result of an older one.
    stale: Vec<u32>,
    /// Something was taken out that a program may still hold.
    unsettled: bool,
}

impl Flow {
    /// Loads the programs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel or the user lacks something.
    pub fn create(options: &Options) -> Result<Flow> {
        Flow::create_by(Hook::probe(), options)
    }

    /// The same with a chosen hook.
    ///
    /// # Errors
    /// As [`Flow::create`].
    pub fn create_by(hook: Hook, options: &Options) -> Result<Flow> {
        let loaded = load(options)?;
        let mut maps = Maps::find(&|name| loaded.map(name))?;
        maps.shared.begin(loading::room(options))?;
        let out = Some(loaded.program(beside::OUT)?);
        Ok(Flow { out, ..Flow::of(hook, loaded.program(PROGRAM)?, maps) })
    }

    /// Finds the fast path that an interface is a port of; `None` if it is of none. Its results stay in force.
    ///
    /// # Errors
    /// Another version's programs are attached, or the interface cannot be queried.
    pub fn reopen(ifindex: u32) -> Result<Option<Flow>> {
        let found = attach::find(ifindex, Direction::Ingress, PROGRAM)?;
        let Some((hook, program)) = found else { return Ok(None) };
        let maps = Maps::find(&|name| program.map_named(name))?;
        let mut flow = Flow::of(hook, program, maps);
        flow.adopt();
        Ok(Some(flow))
    }

    /// Detaches the fast path of another version from an interface, whose results cannot be taken over: the frames that it
    /// had results for are upcalls then. Returns whether there was one.
    ///
    /// # Errors
    /// The interface cannot be queried, or the program cannot be detached.
    pub fn displace(ifindex: u32) -> Result<bool> {
        let found = attach::find(ifindex, Direction::Ingress, PROGRAM)?;
        let Some((hook, program)) = found else { return Ok(false) };
        // Earlier versions lack this map.
        if program.map_named(beside::CARRIED).is_ok() {
            return Ok(false);
        }
        attach::detach(hook, &program, ifindex, Direction::Ingress, Order::End)?;
        Ok(true)
    }

    fn of(hook: Hook, program: Program, maps: Maps) -> Flow {
        Flow {
            hook,
            program,
            out: None,
            carried: maps.carried,
            ports: maps.ports,
            near: maps.near,
            operations: Operations::new(maps.shared.room_for_operations()),
            shared: maps.shared,
            upcalls: maps.upcalls,
            masks: Masks::default(),
            kept: HashMap::new(),
            fresh: 0,
            stale: vec![],
            unsettled: false,
        }
    }

    /// Takes over what another process kept.
    fn adopt(&mut self) {
        for number in self.shared.masks_in_use() {
            self.masks.adopt(number, self.shared.mask(number));
        }
        for slot in 0..self.shared.slots() {
            let Some(result) = self.shared.result(slot) else { continue };
            // A result of a mask that nobody tries was being made or removed.
            let Some(count) = self.masks.words(result.mask) else {
                self.shared.end_result(slot);
                continue;
            };
            let list = self.operations.adopt(&self.shared, result.first);
            self.masks.take(result.mask);
            let (mask, generation) = (result.mask, result.generation);
            self.keep(slot, Record { mask, compared: result.compared(count), list, generation });
        }
        let right = self.shared.index().repair(|slot| self.hash_of(slot));
        // A process that was killed between the two writes left a result without an entry.
        let missing = self.kept.keys().filter(|slot| !right.contains(*slot));
        let lost = missing.copied().filter(|slot| !self.find_place(*slot));
        for slot in lost.collect::<Vec<u32>>() {
            self.remove(slot);
        }
    }

    /// Has programs find a kept result; returns whether there was room for that.
    fn find_place(&self, slot: u32) -> bool {
        let insert = |hash| self.shared.index().insert(hash, slot, |slot| self.hash_of(slot));
        self.hash_of(slot).is_some_and(insert)
    }

    /// The hash of a slot's result.
    fn hash_of(&self, slot: u32) -> Option<u64> {
        self.kept.get(&slot).map(|kept| self.hash(kept))
    }

    fn hash(&self, kept: &Record) -> u64 {
        self.shared.hash(kept.mask, &kept.compared)
    }

    /// The hook by which its programs are attached.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// How many results it can keep.
    pub fn room(&self) -> u32 {
        self.shared.room()
    }

    /// How many results of the current generation it keeps.
    pub fn results(&self) -> usize {
        self.fresh
    }

    /// Makes an interface of the calling thread's network namespace a port: its frames are taken from now on.
    ///
    /// # Errors
    /// There is no such interface, or another switch has it ([`Error::Exists`]).
    pub fn attach(&self, ifindex: u32, port: u32, limit: Limit) -> Result<()> {
        self.attach_by(self.hook, ifindex, port, limit)
    }

    /// The same by a chosen hook. By [`Hook::Clsact`] the programs come behind all those of tcx, and an interface that has the
    /// queueing discipline `ingress` keeps that.
    ///
    /// # Errors
    /// As [`Flow::attach`].
    pub fn attach_by(&self, hook: Hook, ifindex: u32, port: u32, limit: Limit) -> Result<()> {
        put_port((&self.ports, &self.near), ifindex, (port, 0), limit)?;
        // After the maps: a program that finds no port lets the frame pass by the switch.
        attach::attach(hook, &self.program, ifindex, Direction::Ingress, Order::End)
    }

    /// Ends that; the interface may be gone.
    ///
    /// # Errors
    /// The map cannot be written, or the program cannot be detached.
    pub fn detach(&self, ifindex: u32) -> Result<()> {
        self.near.remove(ifindex);
        self.ports.remove(&ifindex.to_ne_bytes())?;
        // After a reopen the attached program may be another load of the same one.
        if let Some((hook, program)) = attach::find(ifindex, Direction::Ingress, PROGRAM)?
            && program.same_maps(&self.program)?
        {
            attach::detach(hook, &program, ifindex, Direction::Ingress, Order::End)?;
        }
        Ok(())
    }

    /// The ports: their interfaces' indices and their numbers.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn ports(&self) -> Result<Vec<(u32, u32)>> {
        ports_in(&self.ports)
    }

    /// Counters of a port's upcalls; `None` if the interface is not a port.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn port_counts(&self, ifindex: u32) -> Result<Option<PortCounts>> {
        let words = self.ports.get::<PORT_WORDS>(&ifindex.to_ne_bytes())?;
        Ok(words.map(|[_, _, _, _, upcalls, limited, full, long]| PortCounts {
            upcalls,
            limited,
            full,
            long,
        }))
    }

    /// Keeps a result; returns whether there was room for it. It is in force when this returns.
    ///
    /// # Errors
    /// A map cannot be written.
    pub fn install(&mut self, entry: &Entry<'_>) -> Result<bool> {
        if entry.slot >= self.room() {
            return Ok(false);
        }
        self.remove(entry.slot);
        self.sweep(SWEEP);
        if !self.shared.has(entry.slot) {
            self.shared.grow(entry.slot, &self.kept)?;
        }
        let Some((number, mask)) = self.mask_for(entry.mask) else { return Ok(false) };
        let compared = Compared::new(entry.key, &mask);
        let Some(record) = compared.and_then(|compared| self.record(entry, number, compared))
        else {
            self.release_mask(number);
            return Ok(false);
        };
        self.keep(entry.slot, record);
        Ok(true)
    }

    /// Puts a result where programs find it; `None` if there is no room for it.
    fn record(&mut self, entry: &Entry<'_>, number: u8, compared: Compared) -> Option<Record> {
        let hash = self.shared.hash(number, &compared);
        let is = |slot: &u32| {
            let kept = self.kept.get(slot);
            kept.is_some_and(|kept| kept.mask == number && kept.compared == compared)
        };
        let same = self.shared.index().slots(hash).find(is);
        // The index takes no second entry of one hash.
        if let Some(same) = same {
            self.remove(same);
        }
        // Slots taken out may be given out again below.
        self.settle();
        let list = self.operations.add(&self.shared, &entry.list.ops)?;
        let first = self.operations.first(list);
        // Operations, result, entry: what a program finds is complete.
        self.shared.put_result(entry, number, &compared, first);
        if !self.shared.index().insert(hash, entry.slot, |slot| self.hash_of(slot)) {
            self.shared.end_result(entry.slot);
            self.operations.release(list);
            return None;
        }
        Some(Record { mask: number, compared, list, generation: entry.generation })
    }

    fn keep(&mut self, slot: u32, kept: Record) {
        if kept.generation == self.generation() {
            self.fresh += 1;
        } else {
            self.stale.push(slot);
        }
        self.kept.insert(slot, kept);
    }

    /// A mask's number, which then is in use once more, and the mask: all bits, if there are too many masks.
    fn mask_for(&mut self, mask: &FlowKey) -> Option<(u8, FlowKey)> {
        let known = self.masks.find(mask);
        if known.is_none() && !self.masks.has_room() && !self.stale.is_empty() {
            self.sweep(usize::MAX);
        }
        self.settle();
        let (number, mask, new) = self.masks.add(mask)?;
        if new {
            self.shared.put_mask(number, &mask);
            self.shared.put_order(&self.masks.order());
            // Programs that run see either nothing of it or all.
            self.shared.settle();
        }
        Some((number, mask))
    }

    fn release_mask(&mut self, number: u8) {
        if self.masks.release(number) {
            self.shared.put_order(&self.masks.order());
            self.unsettled = true;
        }
    }

    /// Removes a result, if there is one: no frame that arrives from now on is treated by it. Its counters are final
    /// after [`Flow::settle`].
    pub fn remove(&mut self, slot: u32) {
        let Some(kept) = self.kept.remove(&slot) else { return };
        self.shared.end_result(slot);
        self.shared.index().remove(self.hash(&kept), slot);
        self.fresh -= usize::from(kept.generation == self.generation());
        self.unsettled = true;
        self.operations.release(kept.list);
        self.release_mask(kept.mask);
    }

    /// Removes results of older generations, at most that many.
    fn sweep(&mut self, most: usize) {
        let generation = self.generation();
        for _ in 0..most {
            let Some(slot) = self.stale.pop() else { return };
            if self.kept.get(&slot).is_some_and(|kept| kept.generation != generation) {
                self.remove(slot);
            }
        }
    }

    /// Makes results of all other generations ineffective. When it returns, no frame is treated by one.
    pub fn set_generation(&mut self, generation: u64) {
        self.shared.generation().store(generation, Ordering::Release);
        let of = |kept: &Record| kept.generation == generation;
        self.fresh = self.kept.values().filter(|kept| of(kept)).count();
        let old = self.kept.iter().filter(|(_, kept)| !of(kept)).map(|(slot, _)| *slot);
        self.stale = old.collect();
        self.shared.settle();
    }

    /// The generation in force.
    pub fn generation(&self) -> u64 {
        self.shared.generation().load(Ordering::Acquire)
    }

    /// Waits for the programs that run now: a few microseconds at most. Removed results are then out of use.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.unsettled) {
            self.shared.settle();
            self.operations.settled();
            self.masks.settled();
        }
    }

    /// What a slot's result has forwarded since it was installed; of a removed one until the slot is used again.
    pub fn counts(&self, slot: u32) -> Count {
        self.shared.counts(slot)
    }

    /// Puts down, where a later process finds it, that these packets and bytes of a slot are known elsewhere.
    pub fn note(&self, slot: u32, count: Count) {
        self.shared.note(slot, [count.packets, count.bytes]);
    }

    /// The results of the current generation.
    pub fn kept(&self) -> impl Iterator<Item = Kept> {
        let generation = self.generation();
        let of = move |(slot, record): (&u32, &Record)| {
            let [packets, bytes] = self.shared.noted(*slot);
            let mask = self.shared.mask(record.mask);
            let key = record.compared.key(&mask);
            let noted = Count { packets, bytes, used: 0 };
            (record.generation == generation).then_some(Kept { slot: *slot, key, mask, noted })
        };
        self.kept.iter().filter_map(of)
    }

    /// Counters of the programs.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Looks first for the masks that found most since the last call.
    pub fn order_masks(&mut self) {
        if self.masks.reorder(&self.shared.hits()) {
            self.shared.put_order(&self.masks.order());
        }
    }

    /// The frames without a result.
    pub fn upcalls(&mut self) -> &mut Upcalls {
        &mut self.upcalls
    }

    /// Readable while upcalls wait.
    pub fn upcalls_fd(&self) -> BorrowedFd<'_> {
        self.upcalls.fd()
    }
}

/// Writes the facts of a port: its number, and the tap beside it.
fn put_port(
    (ports, near): (&Map, &Near),
    ifindex: u32,
    (port, beside): (u32, u32),
    limit: Limit,
) -> Result<()> {
    let key = ifindex.to_ne_bytes();
    // A port that is attached again keeps its counters.
    let mut words = ports.get::<PORT_WORDS>(&key)?.unwrap_or_default();
    words[0] = u64::from_ne_bytes(crate::map::pair(port, beside));
    // `struct nl_fl_port`: a frame takes this many nanoseconds of the rate, and a burst may save up this many.
    words[1] = 1_000_000_000_u64.checked_div(u64::from(limit.rate)).unwrap_or(0);
    words[2] = words[1] * u64::from(limit.burst.max(1));
    ports.put(&key, &words)?;
    near.put(ifindex, port);
    Ok(())
}

/// The ports in the map: their interfaces' indices and their numbers.
fn ports_in(ports: &Map) -> Result<Vec<(u32, u32)>> {
    let mut all = vec![];
    for key in ports.keys() {
        let Ok(ifindex) = <[u8; 4]>::try_from(key.as_slice()) else { continue };
        if let Some([number, ..]) = ports.get::<PORT_WORDS>(&key)? {
            let number = crate::map::unpair(number.to_ne_bytes()).0;
            if number != beside::TAP {
                all.push((u32::from_ne_bytes(ifindex), number));
            }
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Results of older generations that are removed for each new one.
const SWEEP: usize = 4;

/// A map of the expected form.
fn checked(map: Map, key: usize, value: usize, name: &'static str) -> Result<Map> {
    if map.is_of(key, value) {
        return Ok(map);
    }
    Err(Error::Foreign { program: PROGRAM, map: name })
}
