//! Values by slots, side by side: looking through them takes as long as there are values, however many there were.

use crate::data_plane::Slot;

/// A slot without a value.
const NOTHING: usize = usize::MAX;

/// The values.
#[derive(Debug)]
pub(crate) struct DenseSlots<T> {
    all: Vec<(Slot, T)>,
    /// Where a slot's value is in `all`.
    places: Vec<usize>,
    /// Slots without a value, except one that was taken and not given back.
    free: Vec<Slot>,
}

impl<T> Default for DenseSlots<T> {
    fn default() -> Self {
        DenseSlots { all: vec![], places: vec![], free: vec![] }
    }
}

impl<T> DenseSlots<T> {
    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Them, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Slot, T)> {
        self.all.iter()
    }

    /// A slot's value.
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let at = self.places.get(index(slot)?).filter(|at| **at != NOTHING)?;
        self.all.get(*at).map(|(_, value)| value)
    }

    /// A slot for one more value: to be [put](DenseSlots::put), or given back.
    pub(crate) fn take_slot(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(NOTHING);
            Slot::try_from(self.places.len() - 1).unwrap_or(Slot::MAX)
        })
    }

    /// Gives a slot back that got no value.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Gives a slot that was taken its value.
    pub(crate) fn put(&mut self, slot: Slot, value: T) {
        if let Some(place) = index(slot).and_then(|at| self.places.get_mut(at)) {
            *place = self.all.len();
            self.all.push((slot, value));
        }
    }

    /// Takes over values of slots that others chose.
    pub(crate) fn adopt(&mut self, values: impl IntoIterator<Item = (Slot, T)>) {
        self.clear();
        for (slot, value) in values {
            let Some(at) = index(slot) else { continue };
            if self.places.len() <= at {
                self.places.resize(at + 1, NOTHING);
            }
            self.put(slot, value);
        }
        let free = self.places.iter().zip(0..).filter(|(place, _)| **place == NOTHING);
        self.free = free.map(|(_, slot)| slot).collect();
    }

    /// Removes a slot's value.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let place = self.places.get_mut(index(slot)?).filter(|place| **place != NOTHING)?;
        let at = std::mem::replace(place, NOTHING);
        self.free.push(slot);
        let (_, value) = self.all.swap_remove(at);
        if let Some((moved, _)) = self.all.get(at)
            && let Some(place) = index(*moved).and_then(|at| self.places.get_mut(at))
        {
            *place = at;
        }
        Some(value)
    }

    /// Removes all; slots start over.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.places.clear();
        self.free.clear();
    }
}

fn index(slot: Slot) -> Option<usize> {
    usize::try_from(slot).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u16),
        GiveBack,
        Remove(Slot),
        Clear,
        Adopt(Vec<Slot>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => any::<u16>().prop_map(Step::Put),
            1 => Just(Step::GiveBack),
            6 => (0..12_u32).prop_map(Step::Remove),
            1 => Just(Step::Clear),
            1 => proptest::collection::btree_set(0..12_u32, 0..6)
                .prop_map(|slots| Step::Adopt(slots.into_iter().collect())),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn it_is_a_map_whose_slots_are_used_again(steps in steps()) {
            let (mut real, mut model) = (DenseSlots::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Put(value) => {
                        let slot = real.take_slot();
                        prop_assert!(!model.contains_key(&slot));
                        real.put(slot, value);
                        model.insert(slot, value);
                    }
                    Step::GiveBack => {
                        let slot = real.take_slot();
                        prop_assert!(!model.contains_key(&slot));
                        real.give_back(slot);
                    }
                    Step::Remove(slot) => prop_assert_eq!(real.remove(slot), model.remove(&slot)),
                    Step::Clear => {
                        real.clear();
                        model.clear();
                    }
                    Step::Adopt(slots) => {
                        model = slots.into_iter().map(|slot| (slot, 7)).collect();
                        real.adopt(model.clone());
                    }
                }
                let all: BTreeMap<Slot, u16> = real.iter().copied().collect();
                prop_assert_eq!((&all, real.len()), (&model, model.len()));
                prop_assert!((0..14).all(|slot| real.get(slot) == model.get(&slot)));
            }
        }
    }
}
