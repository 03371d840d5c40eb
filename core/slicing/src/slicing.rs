//! The configuration of slices, checked: names, spaces that no two slices share, quotas.

use netloom_openflow::Field;

use crate::Example;
use crate::cube::{Cube, Region};
use crate::mark::Key;
use crate::space::Space;

/// Slices of a switch at most: each has a value of the eight bits of metadata that mark its packets.
const MOST_SLICES: usize = 255;
/// Cubes of a slice at most.
const MOST_CUBES: usize = 4096;

/// The number of a slice: its place in [`Slicing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceId(pub u8);

/// A rate with a burst: a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens a second.
    pub per_second: u64,
    /// Tokens at once.
    pub burst: u64,
}

/// What a slice may use; `None`: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Entries in the tables of the real switch: a rule may need several.
    pub rules: Option<u32>,
    /// Packets for its controller; those above are dropped and counted.
    pub packet_ins: Option<Rate>,
    /// Messages of its controller, or those for the switch that they become, if these are more; see
    /// [`crate::VirtualSwitches::wait`].
    pub messages: Option<Rate>,
    /// What its packets may take together, in kb/s, by a meter of the switch (1.3).
    pub kilobits: Option<u32>,
    /// The queue of every port by which its packets are sent.
    pub queue: Option<u32>,
}

/// A slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// Its packets: the union of these.
    pub spaces: Vec<Space>,
    /// What it may use.
    pub quota: Quota,
    /// Whether its controller may discover links: its LLDP packets are marked, and come back to it alone.
    pub lldp: bool,
    /// The number of its virtual switch; `None`: the real one's, with the slice's number in the upper 16 bits.
    pub datapath_id: Option<u64>,
}

/// Why something cannot be a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More slices than can be told apart.
    #[error("slices: {count} are more than {MOST_SLICES} on one switch")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// Two slices of one name.
    #[error("slice {name:?}: the name is given twice")]
    SameName {
        /// The name.
        name: String,
    },
    /// A space that contradicts itself.
    #[error("slice {name:?}: space {number}: {why}")]
    Space {
        /// The slice.
        name: String,
        /// Which of its spaces, from 1.
        number: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Spaces of too many parts.
    #[error(
        "slice {name:?}: its spaces have more than {MOST_CUBES} parts; take fewer ports, VLANs or ranges"
    )]
    TooFine {
        /// The slice.
        name: String,
    },
    /// A packet of two slices.
    #[error("slices {first:?} and {second:?} share packets: {example}")]
    Overlap {
        /// One slice.
        first: String,
        /// The other.
        second: String,
        /// A packet of both.
        example: Box<Example>,
    },
    /// What is remembered of a switch is not true of it.
    #[error("what was remembered of the switch is of no use: {0}")]
    Memory(&'static str),
    /// A rate or queue that the switch's version cannot keep.
    #[error("slice {name:?}: {what} needs OpenFlow 1.3")]
    Version {
        /// The slice.
        name: String,
        /// What needs it.
        what: &'static str,
    },
}

/// Slices of one switch, checked.
#[derive(Clone, Debug)]
pub struct Slicing {
    /// By number; none where a slice was.
    slices: Vec<Option<Slice>>,
    regions: Vec<Region>,
    key: Key,
}

impl Slicing {
    /// Checks a configuration. `key` signs what marks LLDP packets: all switches of a network of slices have the same.
    ///
    /// # Errors
    /// If it contradicts itself, or slices share packets.
    pub fn new(slices: Vec<Slice>, key: Key) -> Result<Slicing, Error> {
        Slicing::numbered(slices.into_iter().map(Some).collect(), key)
    }

    /// The same of slices that keep numbers which they had before, so that numbers between them may be nobody's.
    ///
    /// # Errors
    /// As [`Slicing::new`].
    pub fn numbered(slices: Vec<Option<Slice>>, key: Key) -> Result<Slicing, Error> {
        if slices.len() > MOST_SLICES {
            return Err(Error::TooMany { count: slices.len() });
        }
        let mut regions: Vec<Region> = vec![];
        for (at, slice) in slices.iter().enumerate() {
            let Some(slice) = slice else {
                regions.push(Region { cubes: vec![] });
                continue;
            };
            let before = slices.iter().zip(&regions).take(at);
            let before = before.filter_map(|(other, region)| Some((other.as_ref()?, region)));
            if before.clone().any(|(other, _)| other.name == slice.name) {
                return Err(Error::SameName { name: slice.name.clone() });
            }
            let region = region(slice)?;
            for (other, taken) in before {
                if let Some(shared) = shared(taken, &region) {
                    return Err(Error::Overlap {
                        first: other.name.clone(),
                        second: slice.name.clone(),
                        example: Box::new(Example::of(&shared)),
                    });
                }
            }
            regions.push(region);
        }
        Ok(Slicing { slices, regions, key })
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = SliceId> + Clone + use<> {
        let there: Vec<SliceId> = self.numbers().filter(|id| self.slice(*id).is_some()).collect();
        there.into_iter()
    }

    /// Their numbers, and those that nobody has between them.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = SliceId> + Clone + use<> {
        // At most 255.
        (0..u8::try_from(self.slices.len()).unwrap_or(u8::MAX)).map(SliceId)
    }

    /// A slice, if it is one of these.
    pub fn slice(&self, id: SliceId) -> Option<&Slice> {
        self.slices.get(usize::from(id.0))?.as_ref()
    }

    /// The slice of this name.
    pub fn find(&self, name: &str) -> Option<SliceId> {
        self.numbers().find(|id| self.slice(*id).is_some_and(|slice| slice.name == name))
    }

    /// All packets of a slice.
    pub fn region(&self, id: SliceId) -> Option<&Region> {
        self.regions.get(usize::from(id.0))
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// The slice that a packet is of.
    pub fn owner(&self, key: &netloom_pipeline::FlowKey) -> Option<SliceId> {
        self.numbers().find(|id| self.region(*id).is_some_and(|region| region.has(key)))
    }

    /// Whether any of its spaces, or of those of others, looks at a field.
    pub fn looks_at(&self, field: Field) -> bool {
        let cubes = self.regions.iter().flat_map(|region| &region.cubes);
        cubes.into_iter().any(|cube| cube.get(field).1 != 0)
    }
}

fn region(slice: &Slice) -> Result<Region, Error> {
    let mut cubes: Vec<Cube> = vec![];
    for (at, space) in slice.spaces.iter().enumerate() {
        let more = space.cubes().map_err(|why| Error::Space {
            name: slice.name.clone(),
            number: at + 1,
            why: why.0,
        })?;
        for cube in more {
            // Only what is new, so that no packet has two entries of the same rule.
            if cubes.iter().any(|old| cube.is_within(old)) {
                continue;
            }
            cubes.retain(|old| !old.is_within(&cube));
            cubes.push(cube);
            if cubes.len() > MOST_CUBES {
                return Err(Error::TooFine { name: slice.name.clone() });
            }
        }
    }
    Ok(Region { cubes })
}

/// Packets of both.
fn shared(one: &Region, other: &Region) -> Option<Cube> {
    let pairs = one.cubes.iter().flat_map(|a| other.cubes.iter().map(move |b| (a, b)));
    pairs.filter_map(|(a, b)| a.and(b)).find(Cube::is_possible)
}
