//! Sets of packets: a cube has for each field the bits that are fixed; a region is a union of cubes.
//!
//! All operations are exact, given that a cube with a field also has the values that the field needs (an address has
//! its ethertype): then the same bits of a packet mean the same in all cubes that agree on the fields before them.
//! The least number of fields comes first, which is the order of needs in the specification's numbers.

use netloom_openflow::matching::Prerequisite;
use netloom_openflow::{Field, Oxm};
use netloom_pipeline::FlowKey;

use crate::Work;

/// Parts that a difference is searched in at most.
const MOST_PARTS: usize = 1 << 14;

/// Packets whose fields have these bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cube {
    /// Value and mask of each field, in order; the value is zero outside the mask, and no mask is empty.
    fields: Vec<(Field, (u128, u128))>,
}

impl Cube {
    /// The packets that a match is about; `None` if it contradicts itself.
    pub fn of(fields: &[Oxm]) -> Option<Cube> {
        let mut cube = Cube::default();
        for oxm in fields {
            if !cube.restrict(oxm.field, oxm.value, oxm.bits()) {
                return None;
            }
        }
        Some(cube)
    }

    /// Just the packet with this key, in fields that some packet with its protocols has.
    pub fn exactly(key: &FlowKey) -> Cube {
        let mut cube = Cube::default();
        for field in Field::ALL {
            if key.may_have(*field) && !matches!(field, Field::InPhyPort | Field::Metadata) {
                cube.restrict(*field, key.get(*field), field.full());
            }
        }
        cube
    }

    /// As a match: fields in an order in which each has what it needs before it.
    pub fn to_oxm(&self) -> Vec<Oxm> {
        let all = self.fields.iter().map(|(field, (value, mask))| {
            if *mask == field.full() {
                Oxm::exact(*field, *value)
            } else {
                Oxm::masked(*field, *value, *mask)
            }
        });
        all.collect()
    }

    /// Value and mask of a field; `(0, 0)`: anything.
    pub fn get(&self, field: Field) -> (u128, u128) {
        self.find(field).unwrap_or((0, 0))
    }

    fn find(&self, field: Field) -> Option<(u128, u128)> {
        self.fields.iter().find(|(of, _)| *of == field).map(|(_, bits)| *bits)
    }

    /// Puts a field in its place.
    fn put(&mut self, field: Field, bits: (u128, u128)) {
        let at = self.fields.partition_point(|(of, _)| *of < field);
        match self.fields.get_mut(at).filter(|(of, _)| *of == field) {
            Some(place) => place.1 = bits,
            None => self.fields.insert(at, (field, bits)),
        }
    }

    /// The value of a field that is fixed.
    pub fn exact(&self, field: Field) -> Option<u128> {
        self.find(field).filter(|(_, mask)| *mask == field.full()).map(|(value, _)| value)
    }

    /// Fixes more bits; returns whether they agree with those before. If not, the cube is as it was.
    pub fn restrict(&mut self, field: Field, value: u128, mask: u128) -> bool {
        let mask = mask & field.full();
        if mask == 0 {
            return true;
        }
        let (old, bits) = self.get(field);
        if (old ^ value) & bits & mask != 0 {
            return false;
        }
        self.put(field, (old | value & mask, bits | mask));
        true
    }

    /// Forgets a field.
    pub fn free(&mut self, field: Field) {
        self.fields.retain(|(of, _)| *of != field);
    }

    /// Gives a field one value.
    pub fn assign(&mut self, field: Field, value: u128) {
        self.put(field, (value & field.full(), field.full()));
    }

    /// Forgets all fields but these.
    pub fn keep(&mut self, keep: &[Field]) {
        self.fields.retain(|(field, _)| keep.contains(field));
    }

    /// The fields that it fixes bits of.
    pub fn constrained(&self) -> impl Iterator<Item = Field> {
        self.fields.iter().map(|(field, _)| *field)
    }

    /// Whether a packet with this key is in it.
    pub fn has(&self, key: &FlowKey) -> bool {
        self.fields.iter().all(|(field, (value, mask))| key.get(*field) & mask == *value)
    }

    /// The common part.
    pub fn and(&self, other: &Cube) -> Option<Cube> {
        let mut both = self.clone();
        for (field, (value, mask)) in &other.fields {
            if !both.restrict(*field, *value, *mask) {
                return None;
            }
        }
        Some(both)
    }

    /// Whether a packet is in both.
    pub fn meets(&self, other: &Cube) -> bool {
        let agrees = |(field, (value, mask)): &(Field, (u128, u128))| {
            let (old, bits) = other.get(*field);
            (old ^ value) & bits & mask == 0
        };
        self.fields.iter().all(agrees)
    }

    /// Whether all of it is in the other.
    pub fn is_within(&self, other: &Cube) -> bool {
        other.fields.iter().all(|(field, (value, mask))| {
            let (own, bits) = self.get(*field);
            bits & mask == *mask && own & mask == *value
        })
    }

    /// The part that is not in the other, as cubes without common packets.
    pub fn without(&self, other: &Cube) -> Vec<Cube> {
        if !self.meets(other) {
            return vec![self.clone()];
        }
        let (mut rest, mut left) = (vec![], self.clone());
        for (field, (value, mask)) in &other.fields {
            let mut open = mask & !left.get(*field).1;
            while open != 0 {
                // A part for each bit that the other fixes: alike in the bits
                // before, different in this one. So no two parts share a packet.
                let bit = 1u128 << (127 - open.leading_zeros());
                open &= !bit;
                let mut outside = left.clone();
                outside.restrict(*field, !value & bit, bit);
                if outside.is_possible() {
                    rest.push(outside);
                }
                left.restrict(*field, value & bit, bit);
            }
        }
        rest
    }

    /// Whether some packet is in it, as far as protocols and tags tell: a VLAN id without its presence bit is 0.
    pub fn is_possible(&self) -> bool {
        use netloom_openflow::matching::VID_PRESENT;
        let (vid, bits) = self.get(Field::VlanVid);
        let untagged = bits & VID_PRESENT != 0 && vid & VID_PRESENT == 0;
        if untagged && (vid != 0 || self.get(Field::VlanPcp).0 != 0) {
            return false;
        }
        self.fields.iter().all(|(field, _)| match field.needs() {
            Prerequisite::Is(of, values) => match self.get(of) {
                (_, 0) => true,
                (value, mask) => values.iter().any(|of| of & mask == value),
            },
            _ => true,
        })
    }
}

/// A union of cubes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The cubes; they may have packets in common.
    pub cubes: Vec<Cube>,
}

impl Region {
    /// Whether a packet with this key is in it.
    pub fn has(&self, key: &FlowKey) -> bool {
        self.cubes.iter().any(|cube| cube.has(key))
    }

    /// What of a cube is in it, cube by cube.
    pub fn and(&self, cube: &Cube) -> Vec<Cube> {
        self.cubes.iter().filter_map(|own| own.and(cube)).filter(Cube::is_possible).collect()
    }

    /// A part of a cube that is not in it. One that is covered by so many cubes that it takes too long to see counts as
    /// one that is not.
    pub fn lacks(&self, cube: &Cube) -> Option<Cube> {
        let mut search = Search::of(cube.clone());
        loop {
            if let Some(found) = search.goes_on(self, &mut Work::all()) {
                return found;
            }
        }
    }
}

/// A search for a part of a cube that is not in a region, under way.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Depth first, so that memory stays small: a part and the first cube not yet taken from it.
    open: Vec<(Cube, usize)>,
    left: usize,
}

impl Search {
    pub(crate) fn of(cube: Cube) -> Search {
        Search { open: vec![(cube, 0)], left: MOST_PARTS }
    }

    /// A missing part, or that nothing is missing; `None`: not finished.
    pub(crate) fn goes_on(&mut self, region: &Region, work: &mut Work) -> Option<Option<Cube>> {
        while let Some((part, from)) = self.open.pop() {
            self.left -= 1;
            if self.left == 0 {
                // On the safe side: the proof fails, and the rule is refused.
                return Some(Some(part));
            }
            let cubes = region.cubes.get(from..).unwrap_or(&[]);
            // Mostly one cube has all of it.
            if let Some(at) = cubes.iter().position(|own| part.is_within(own)) {
                work.spend(at + 1);
                continue;
            }
            work.spend(2 * cubes.len() + 1);
            match cubes.iter().position(|own| own.meets(&part)) {
                None => return Some(Some(part)),
                Some(at) => {
                    let own = cubes.get(at).map(|own| part.without(own)).unwrap_or_default();
                    self.open.extend(own.into_iter().map(|rest| (rest, from + at + 1)));
                }
            }
            if !work.is_left() {
                return None;
            }
        }
        Some(None)
    }
}
