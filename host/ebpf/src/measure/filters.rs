//! Flows: the slots of filters, and the tables in the kernel.
//!
//! Of two sets of tables one is active. The other is rewritten, then a single word activates it for
//! every packet at once, with a new generation that matches no cache entry. A flow may count from a later
//! block on, so that many points begin with it at the same packet; until then its packets are another flow's.

use std::collections::HashMap;

use netloom_marking::session::{NamedFilter, flow_ids};
use netloom_marking::tables::Bytes;
use netloom_marking::{Filter, Precedence, Tables};
use netloom_sys::Failure;

use super::programs::Maps;
use crate::{Error, Result};

/// Masks of a set (`NL_ME_MASKS`).
const MASKS: u32 = 32;

/// The slot of packets that are only tallied (`NL_ME_ASIDE`).
const ASIDE: u32 = 0x7fff_ffff;

/// A bit of the slot of a flow that counts from a later block on (`NL_ME_JOINED`).
const JOINED: u32 = 0x4000_0000;

/// A flow that counts from a later block on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The flow.
    pub id: u32,
    /// Its first block.
    pub from: u64,
    /// The flow of its earlier packets.
    pub before: u32,
}

/// A measured flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) id: u32,
    pub(super) slot: u32,
    /// Start of its counting, on the point's clock.
    pub(super) began: u64,
    filters: Vec<Filter>,
}

/// All flows of a point.
#[derive(Debug)]
pub(super) struct Flows {
    room: u32,
    flows: Vec<Flow>,
    /// Unused, empty slots.
    free: Vec<u32>,
    /// Slots of flows that are gone, not yet emptied.
    left: Vec<u32>,
    generation: u32,
    /// Keys of the filters in each set.
    written: [Vec<Vec<u8>>; 2],
}

fn object() -> String {
    "filters".to_owned()
}

impl Flows {
    pub(super) fn new(room: u32) -> Flows {
        let written = [Vec::new(), Vec::new()];
        let (flows, left) = (Vec::new(), Vec::new());
        Flows { room, flows, free: (0..room).rev().collect(), left, generation: 0, written }
    }

    pub(super) fn room(&self) -> u32 {
        self.room
    }

    /// Flows in the order of their first filters.
    pub(super) fn all(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter()
    }

    /// Activates filters.
    pub(super) fn set(
        &mut self,
        maps: &Maps,
        filters: &[NamedFilter],
        joined: &[Joined],
        (precedence, now): (Precedence, u64),
    ) -> Result<()> {
        let plain: Vec<Filter> = filters.iter().map(|named| named.filter).collect();
        let tables = Tables::new(&plain, precedence)
            .map_err(|e| Failure::new(object(), "put into tables", std::io::Error::other(e)))?;
        self.reclaim(maps)?;
        // Copies, so that an error below leaves the point as it is.
        let (flows, free) = self.assign(filters, now)?;
        let of: HashMap<u32, u32> = flows.iter().map(|flow| (flow.id, flow.slot)).collect();
        let slot = |named: &NamedFilter| of.get(&named.id).copied().unwrap_or(ASIDE);
        let mut slots: Vec<u32> = filters.iter().map(slot).collect();
        for Joined { id, from, before } in joined {
            let reason = "a flow that joins, or the one before it, has no filter";
            let slot = |id: &u32| of.get(id).copied();
            let (slot, before) =
                slot(id).zip(slot(before)).ok_or(Error::Unknown { object: object(), reason })?;
            // Before the tables say that the flow joins.
            maps.joins.put(&slot.to_ne_bytes(), &[from + 1, before.into()])?;
            let own = filters.iter().zip(&mut slots).filter(|(named, _)| named.id == *id);
            own.for_each(|(_, slot)| *slot |= JOINED);
        }
        self.write(maps, &tables, &slots)?;
        // From here on the kernel has these flows, whatever else fails.
        let gone = |old: &&Flow| !flows.iter().any(|flow| flow.slot == old.slot);
        self.left.extend(self.flows.iter().filter(gone).map(|old| old.slot));
        (self.flows, self.free) = (flows, free);
        // Only now: until the switch, programs counted in these slots. What fails is tried again before slots are given next.
        let _ = self.reclaim(maps);
        Ok(())
    }

    /// Empties the slots of flows that are gone.
    fn reclaim(&mut self, maps: &Maps) -> Result<()> {
        while let Some(slot) = self.left.last().copied() {
            maps.clear(slot, self.room, maps.is_sampled())?;
            self.left.pop();
            self.free.push(slot);
        }
        Ok(())
    }

    /// Assigns slots to filters; returns the flows and the remaining slots.
    fn assign(&self, filters: &[NamedFilter], now: u64) -> Result<(Vec<Flow>, Vec<u32>)> {
        let mut by_id: HashMap<u32, Vec<Filter>> = HashMap::new();
        for NamedFilter { id, filter } in filters {
            let of = by_id.entry(*id).or_default();
            if of.contains(filter) {
                return Err(Error::Unknown { object: object(), reason: "two are the same" });
            }
            of.push(*filter);
        }
        let old: HashMap<u32, &Flow> = self.flows.iter().map(|flow| (flow.id, flow)).collect();
        let mut free = self.free.clone();
        let mut flows = Vec::with_capacity(by_id.len());
        for id in flow_ids(filters) {
            let filters = by_id.remove(&id).unwrap_or_default();
            let flow = match old.get(&id) {
                Some(flow) if flow.filters == filters => (*flow).clone(),
                _ => {
                    let reason = "more than there was said to be room for, with those replaced";
                    let slot = free.pop().ok_or(Error::Unknown { object: object(), reason })?;
                    Flow { id, slot, began: now, filters }
                }
            };
            flows.push(flow);
        }
        Ok((flows, free))
    }

    /// Writes the inactive set, activates it, and empties the other. `slots` are the filters'
    /// slots.
    fn write(&mut self, maps: &Maps, tables: &Tables, slots: &[u32]) -> Result<()> {
        // The set follows from the generation, so that the active one is never written.
        let set = (self.generation.wrapping_add(1) & 1) as usize;
        let first = u32::try_from(set).unwrap_or(0) * MASKS;
        // Entries left by a failed attempt.
        self.empty(maps, set)?;
        for (index, mask) in (first..).zip(tables.masks()) {
            maps.masks.put(&index.to_ne_bytes(), &mask_words(&mask.bytes, mask.best))?;
        }
        for (mask, key, rank) in tables.entries() {
            let slot = tables.filter(rank).and_then(|at| slots.get(at)).copied().unwrap_or(0);
            let key = [&(first + mask).to_ne_bytes()[..], key].concat();
            maps.filters.put(&key, &[u64::from(slot) << 32 | u64::from(rank)])?;
            self.written[set].push(key);
        }
        let generation = self.generation.wrapping_add(1);
        let masks = u64::try_from(tables.masks().len()).unwrap_or(0);
        let word = u64::from(generation) << 32 | u64::from(first / MASKS) << 8 | masks;
        maps.active.put(&0u32.to_ne_bytes(), &[word])?;
        self.generation = generation;
        // Programs that read the old word may still search the old set.
        settle();
        // What fails here is tried again before this set is written.
        let _ = self.empty(maps, 1 - set);
        Ok(())
    }

    fn empty(&mut self, maps: &Maps, set: usize) -> Result<()> {
        while let Some(key) = self.written[set].last() {
            maps.filters.remove(key)?;
            self.written[set].pop();
        }
        Ok(())
    }
}

/// `struct nl_me_mask`.
fn mask_words(bytes: &Bytes, best: u32) -> Vec<u64> {
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
    words.chain([u64::from_ne_bytes(crate::map::pair(best, 0))]).collect()
}

/// Waits until all programs that began earlier have ended: an RCU grace period covers them.
fn settle() {
    const GLOBAL: libc::c_int = 1;
    // SAFETY: takes numbers only.
    let refused = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if refused != 0 {
        // Refused with tickless CPUs (nohz_full). A program ends within microseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
