//! The configuration of a measurement: the body of the API's POST, and its checked form.
//!
//! [`Body`] has exactly the source's names, and ours, which are all optional.
//! [`Configuration::read`] turns the bytes of a body into either a valid configuration
//! or *all* its errors, each with the path of its field. Nothing is silently
//! ignored: unknown names, and names without meaning for the chosen program, are errors.

mod body;
mod check;
mod field;
mod unique;

pub use body::{Body, BodyFilter, Netif};
pub use field::Problem;

use crate::{
    Filter, HashFunction, Hasher, Marks, PayloadPart, Precedence, Profile, Result, Schedule,
    Selection,
};

/// Which program runs at the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// 0: does nothing, for comparison.
    Empty,
    /// 1: counts all packets and their times.
    All,
    /// 2: counts all packets, and keeps times of those that a fixed hash selects.
    Fixed,
    /// 3: counts all packets, and keeps times of `npkts` / 2 to `npkts` of each block.
    Dynamic,
    /// 4: counts all packets; keeps times of selected or of double-marked packets, or of both.
    Combined,
}

impl Program {
    /// The program of a number.
    pub fn numbered(id: u64) -> Option<Program> {
        let all =
            [Program::Empty, Program::All, Program::Fixed, Program::Dynamic, Program::Combined];
        all.get(usize::try_from(id).ok()?).copied()
    }

    /// Whether it selects by hash: always, never, or optionally (`None`).
    fn hashes(self) -> Option<bool> {
        match self {
            Program::Empty | Program::All => Some(false),
            Program::Fixed | Program::Dynamic => Some(true),
            Program::Combined => None,
        }
    }
}

/// How packets are selected by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The fields hashed, and the function.
    pub hasher: Hasher,
    /// The selection, for a dynamic length the initial one.
    pub selection: Selection,
    /// For a dynamic length: the room for samples of a block.
    pub npkts: Option<u32>,
}

/// A filter with the number that identifies its measures. Filters of one number form one flow: the packets
/// that any of them matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFilter {
    /// Its number.
    pub id: u32,
    /// The filter.
    pub filter: Filter,
}

impl NamedFilter {
    /// The number of filters whose packets are only counted together: they are neither marked nor in
    /// any record.
    pub const ASIDE: u32 = u32::MAX;
}

/// The numbers of all flows, in the order of their first filters.
pub fn flow_ids(filters: &[NamedFilter]) -> Vec<u32> {
    let mut seen = std::collections::HashSet::new();
    let ids = filters.iter().map(|named| named.id).filter(|id| *id != NamedFilter::ASIDE);
    ids.filter(|id| seen.insert(*id)).collect()
}

/// A valid measurement. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The program.
    pub program: Program,
    /// The length of a block.
    pub period: u64,
    /// The duration of the measurement; blocks that do not fit into it are not started.
    pub duration: u64,
    /// How long after its end a block still counts packets.
    pub guard: u64,
    /// The encoding of marks.
    pub marks: Marks,
    /// Which packets are measured.
    pub filters: Vec<NamedFilter>,
    /// Which filter gets a packet that several match.
    pub precedence: Precedence,
    /// How packets are selected, if at all.
    pub sampling: Option<Sampling>,
    /// The interfaces measured; if empty, every interface.
    pub netifs: Vec<String>,
    /// The interfaces at whose egress packets of the filters are marked.
    pub marking: Vec<String>,
}

impl Configuration {
    /// Reads and checks a body.
    ///
    /// # Errors
    ///
    /// All errors, in the order of the source's fields; never an empty list.
    pub fn read(body: &[u8]) -> std::result::Result<Configuration, Vec<Problem>> {
        check::read(body)
    }

    /// The schedule of a measurement that begins at a time of the points' clock.
    ///
    /// # Errors
    ///
    /// A start too close to the clock's 0.
    pub fn schedule(&self, start: u64) -> Result<Schedule> {
        Schedule::new(start, self.period, self.guard)
    }

    /// How many whole blocks it has.
    pub fn blocks(&self) -> u64 {
        self.duration.checked_div(self.period).unwrap_or(0)
    }

    /// How many flows there are.
    pub fn flows(&self) -> usize {
        flow_ids(&self.filters).len()
    }

    /// The filters without their numbers, in order.
    pub fn plain_filters(&self) -> Vec<Filter> {
        self.filters.iter().map(|named| named.filter).collect()
    }
}

/// The default hasher, for a body without profile, seed or part of the payload.
fn hasher(function: HashFunction) -> Hasher {
    Hasher { function, profile: Profile::default(), seed: 0, payload: PayloadPart::default() }
}

#[cfg(test)]
mod tests;
