//! Cubes by their port of arrival and VLAN: those that may meet another are found without a look at all.
//!
//! Slices are mostly told apart by these two. Cubes that leave one open are looked at whatever it is.

use std::collections::BTreeMap;

use netloom_openflow::Field;

use crate::cube::Cube;

/// A field that is fixed, or open.
type Fixed = Option<u128>;

/// Names of cubes, by what those fix.
#[derive(Clone, Debug)]
pub(crate) struct Index<T>(BTreeMap<Fixed, BTreeMap<Fixed, Vec<T>>>);

impl<T> Default for Index<T> {
    fn default() -> Index<T> {
        Index(BTreeMap::new())
    }
}

/// The entries at a place or at the open one; of an open place, all.
fn among<V>(all: &BTreeMap<Fixed, V>, at: Fixed) -> impl Iterator<Item = &V> {
    let [one, open] = match at {
        Some(_) => [all.get(&at), all.get(&None)],
        None => [None, None],
    };
    let every = at.is_none().then(|| all.values());
    one.into_iter().chain(open).chain(every.into_iter().flatten())
}

impl<T: Copy> Index<T> {
    /// Adds a cube by its name.
    pub(crate) fn add(&mut self, cube: &Cube, name: T) {
        let (port, vlan) = (cube.exact(Field::InPort), cube.exact(Field::VlanVid));
        self.0.entry(port).or_default().entry(vlan).or_default().push(name);
    }

    /// The names of those that may have a packet with this port and VLAN.
    pub(crate) fn at(&self, port: Fixed, vlan: Fixed) -> impl Iterator<Item = T> {
        among(&self.0, port).flat_map(move |by_vlan| among(by_vlan, vlan)).flatten().copied()
    }

    /// The names of those that may meet a cube.
    pub(crate) fn near(&self, cube: &Cube) -> impl Iterator<Item = T> {
        self.at(cube.exact(Field::InPort), cube.exact(Field::VlanVid))
    }
}
