//! What a measurement is asked for with: the body of the API's POST, and the checked configuration.
//!
//! [`Body`] has the source's names, exactly, and ours beside them; all of ours may be left out.
//! [`Configuration::read`] takes the bytes of a body and gives either something that can be
//! measured or *all* that is wrong with it, each with the path of its field. Nothing is taken
//! silently: unknown names, and names that say nothing for the program chosen, are errors.

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
    /// 0: does nothing, to compare with.
    Empty,
    /// 1: counts all packets and their times.
    All,
    /// 2: counts all packets, and the times of those that a fixed hash selects.
    Fixed,
    /// 3: counts all packets, and keeps times of `npkts` / 2 to `npkts` of each block.
    Dynamic,
    /// 4: counts all packets; times of selected or of twice marked packets, or of both.
    Combined,
}

impl Program {
    /// The program of a number.
    pub fn numbered(id: u64) -> Option<Program> {
        let all =
            [Program::Empty, Program::All, Program::Fixed, Program::Dynamic, Program::Combined];
        all.get(usize::try_from(id).ok()?).copied()
    }

    /// Whether it selects by hash: always, never, or if it is asked to.
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
    /// What is hashed, and how.
    pub hasher: Hasher,
    /// What is selected, or for a dynamic length, what it begins with.
    pub selection: Selection,
    /// For a dynamic length: how many samples there is room for in a block.
    pub npkts: Option<u32>,
}

/// A filter with the number by which its measures are asked for. Filters of one number are one flow: what
/// any of them matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFilter {
    /// Its number.
    pub id: u32,
    /// What it matches.
    pub filter: Filter,
}

impl NamedFilter {
    /// The number of filters whose packets are only counted, all together: they are neither marked nor in
    /// any record.
    pub const ASIDE: u32 = u32::MAX;
}

/// The numbers of all flows, in the order of their first filters.
pub fn flow_ids(filters: &[NamedFilter]) -> Vec<u32> {
    let mut seen = std::collections::HashSet::new();
    let ids = filters.iter().map(|named| named.id).filter(|id| *id != NamedFilter::ASIDE);
    ids.filter(|id| seen.insert(*id)).collect()
}

/// A measurement that can be made. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// What runs.
    pub program: Program,
    /// The length of a block.
    pub period: u64,
    /// How long the whole measurement lasts; blocks that do not fit into it are not begun.
    pub duration: u64,
    /// How long after its end a block is still counted.
    pub guard: u64,
    /// How marks look.
    pub marks: Marks,
    /// Which packets are measured.
    pub filters: Vec<NamedFilter>,
    /// Which filter has a packet that several match.
    pub precedence: Precedence,
    /// How packets are selected, if they are.
    pub sampling: Option<Sampling>,
    /// Where; if none is named, on every interface.
    pub netifs: Vec<String>,
    /// At whose egress packets of the filters are marked.
    pub marking: Vec<String>,
}

impl Configuration {
    /// Reads and checks a body.
    ///
    /// # Errors
    ///
    /// All that is wrong, in the order of the source's fields; never an empty list.
    pub fn read(body: &[u8]) -> std::result::Result<Configuration, Vec<Problem>> {
        check::read(body)
    }

    /// The blocks of a measurement that begins at a time of the points' clock.
    ///
    /// # Errors
    ///
    /// A start that leaves no room before it.
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

    /// The filters alone, in their order.
    pub fn plain_filters(&self) -> Vec<Filter> {
        self.filters.iter().map(|named| named.filter).collect()
    }
}

/// What a body gets that names no profile, seed or part of the payload.
fn hasher(function: HashFunction) -> Hasher {
    Hasher { function, profile: Profile::default(), seed: 0, payload: PayloadPart::default() }
}

#[cfg(test)]
#[path = "session/tests.rs"]
mod tests;
