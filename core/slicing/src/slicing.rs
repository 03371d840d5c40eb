//! The configuration of slices, checked: names, spaces that no two slices share, quotas.

use std::collections::BTreeMap;

use netloom_openflow::Field;

use crate::Example;
use crate::cube::{Cube, Region};
use crate::fields::Fields;
use crate::index::Index;
use crate::mark::Key;
use crate::space::{MOST_CUBES, Space, Unusable};

/// Slices of a switch at most: each has a value of the ten bits of metadata that mark its packets.
const MOST_SLICES: usize = 1023;
/// Slices that one shares packets with of which it is told.
const MOST_TOLD: usize = 16;
/// Cubes of all slices of a switch at most: a step of a proof may look at them all.
const MOST_IN_ALL: usize = 1 << 16;

/// The number of a slice: its place in [`Slicing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceId(pub u16);

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
    /// Groups.
    pub groups: Option<u32>,
    /// Buckets of all its groups, as the real switch has them: one that floods is several.
    pub buckets: Option<u32>,
    /// Meters.
    pub meters: Option<u32>,
    /// Bytes that its rules, groups and meters take here, about.
    pub bytes: Option<u64>,
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
        /// The fault.
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
    /// Spaces of too many parts, together.
    #[error(
        "slice {name:?}: with it, the spaces of all slices of the switch have more than {MOST_IN_ALL} parts; take \
         fewer ports, VLANs or ranges"
    )]
    TooFineTogether {
        /// The slice with which they have.
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
    /// The saved state of a switch does not match it.
    #[error("the saved state of the switch cannot be used: {0}")]
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
    /// All cubes, by slice and place in its region.
    index: Index<(SliceId, usize)>,
    /// By slice, the fields that its spaces look at; and those that any does.
    looks: Vec<Fields>,
    looked: Fields,
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
        let mut all = Slicing::none(key);
        for slice in slices {
            if let Some(error) = all.push(slice, 1).into_iter().next() {
                return Err(error);
            }
        }
        let looks = |region: &Region| region.cubes.iter().flat_map(Cube::constrained).collect();
        all.looks = all.regions.iter().map(looks).collect();
        all.looked = all.looks.iter().flat_map(|looks| looks.iter()).collect();
        Ok(all)
    }

    fn none(key: Key) -> Slicing {
        Slicing {
            slices: vec![],
            regions: vec![],
            index: Index::default(),
            looks: vec![],
            looked: Fields::default(),
            key,
        }
    }

    /// What is wrong with slices, each with the place of the later one that has to do with it. Of the slices that one shares
    /// packets with, some are told.
    pub fn faults(slices: Vec<Slice>) -> Vec<(usize, Error)> {
        if slices.len() > MOST_SLICES {
            return vec![(MOST_SLICES, Error::TooMany { count: slices.len() })];
        }
        // Nothing is signed by it: only spaces are compared.
        let mut all = Slicing::none(Key([0; 16]));
        let mut faults = vec![];
        for (at, slice) in slices.into_iter().enumerate() {
            faults.extend(all.push(Some(slice), MOST_TOLD).into_iter().map(|fault| (at, fault)));
        }
        faults
    }

    /// Adds a slice; returns what is wrong with it, this many overlaps at most. An invalid slice does not affect others.
    fn push(&mut self, slice: Option<Slice>, overlaps: usize) -> Vec<Error> {
        let Some(slice) = slice else {
            // A slice's number is its place in both lists, so a gap is in both.
            self.slices.push(None);
            self.regions.push(Region { cubes: vec![] });
            return vec![];
        };
        let name = slice.name.clone();
        let mut faults = vec![];
        if self.slices.iter().flatten().any(|other| other.name == name) {
            faults.push(Error::SameName { name: name.clone() });
        }
        let region = region(&slice).unwrap_or_else(|fault| {
            faults.push(fault);
            Region::default()
        });
        let before: usize = self.regions.iter().map(|region| region.cubes.len()).sum();
        if before + region.cubes.len() > MOST_IN_ALL {
            faults.push(Error::TooFineTogether { name });
        } else {
            faults.extend(self.overlaps(&slice, &region, overlaps));
        }
        // At most as many as there may be.
        let id = SliceId(u16::try_from(self.slices.len()).unwrap_or(u16::MAX));
        for (at, cube) in region.cubes.iter().enumerate() {
            self.index.add(cube, (id, at));
        }
        self.slices.push(Some(slice));
        self.regions.push(region);
        faults
    }

    /// The slices that share packets with a new one: this many at most, in the order of their numbers.
    fn overlaps(&self, slice: &Slice, region: &Region, most: usize) -> Vec<Error> {
        let mut found: BTreeMap<SliceId, Cube> = BTreeMap::new();
        for cube in &region.cubes {
            for (other, at) in self.index.near(cube) {
                let last = found.last_key_value().map(|(last, _)| *last);
                // Only the first ones are told: a slice behind all of them need not be compared.
                let is_late = found.len() >= most && last.is_some_and(|last| other > last);
                if is_late || found.contains_key(&other) {
                    continue;
                }
                let taken = self.region(other).and_then(|region| region.cubes.get(at));
                let shared = taken.and_then(|taken| taken.and(cube)).filter(Cube::is_possible);
                found.extend(shared.map(|shared| (other, shared)));
                if found.len() > most {
                    found.pop_last();
                }
            }
        }
        let named = |(other, shared): (SliceId, Cube)| {
            Some(Error::Overlap {
                first: self.slice(other)?.name.clone(),
                second: slice.name.clone(),
                example: Box::new(Example::of(&shared)),
            })
        };
        found.into_iter().filter_map(named).collect()
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = SliceId> + Clone + use<> {
        let there: Vec<SliceId> = self.numbers().filter(|id| self.slice(*id).is_some()).collect();
        there.into_iter()
    }

    /// Their numbers, and those that nobody has between them.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = SliceId> + Clone + use<> {
        // At most as many as there may be.
        (0..u16::try_from(self.slices.len()).unwrap_or(u16::MAX)).map(SliceId)
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

    /// The cubes of other slices that may meet one, with these slices.
    pub(crate) fn others(
        &self,
        cube: &Cube,
        but: SliceId,
    ) -> impl Iterator<Item = (SliceId, &Cube)> {
        let others = self.index.near(cube).filter(move |(id, _)| *id != but);
        others.filter_map(|(id, at)| Some((id, self.region(id)?.cubes.get(at)?)))
    }

    /// The slice that a packet is of.
    pub fn owner(&self, key: &netloom_pipeline::FlowKey) -> Option<SliceId> {
        let (port, vlan) = (key.get(Field::InPort), key.get(Field::VlanVid));
        let mut near = self.index.at(Some(port), Some(vlan));
        let has = |(id, at): &(SliceId, usize)| {
            let cube = self.region(*id).and_then(|region| region.cubes.get(*at));
            cube.is_some_and(|cube| cube.has(key))
        };
        // No two slices share a packet: the first that has it is the only one.
        near.find(has).map(|(id, _)| id)
    }

    /// Whether any of its spaces, or of those of others, looks at a field.
    pub fn looks_at(&self, field: Field) -> bool {
        self.looked.has(field)
    }

    /// Whether spaces of a slice look at one of these.
    pub(crate) fn own_looks(&self, slice: SliceId, fields: Fields) -> bool {
        self.looks.get(usize::from(slice.0)).is_some_and(|looks| looks.meets(fields))
    }

    /// Whether any spaces do.
    pub(crate) fn any_looks(&self, fields: Fields) -> bool {
        self.looked.meets(fields)
    }
}

fn region(slice: &Slice) -> Result<Region, Error> {
    let too_fine = || Error::TooFine { name: slice.name.clone() };
    let (mut cubes, mut index): (Vec<Option<Cube>>, Index<usize>) = (vec![], Index::default());
    let mut count = 0;
    for (at, space) in slice.spaces.iter().enumerate() {
        let more = space.cubes().map_err(|why| match why {
            Unusable::TooFine => too_fine(),
            Unusable::Contradiction(why) => {
                Error::Space { name: slice.name.clone(), number: at + 1, why }
            }
        })?;
        for cube in more {
            // Only what is new, so that no packet has two entries of the same rule.
            let near: Vec<usize> = index.near(&cube).collect();
            let old = |at: &usize| cubes.get(*at).and_then(Option::as_ref);
            if near.iter().filter_map(old).any(|old| cube.is_within(old)) {
                continue;
            }
            for at in near {
                let place = cubes.get_mut(at);
                if let Some(place) = place
                    && place.as_ref().is_some_and(|old| old.is_within(&cube))
                {
                    *place = None;
                    count -= 1;
                }
            }
            index.add(&cube, cubes.len());
            cubes.push(Some(cube));
            count += 1;
            if count > MOST_CUBES {
                return Err(too_fine());
            }
        }
    }
    Ok(Region { cubes: cubes.into_iter().flatten().collect() })
}
