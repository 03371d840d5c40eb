//! The masks in use: their numbers, how many results each has, and in which order programs try them.
//!
//! Their count is bounded, so that no set of tables makes every frame slow: when all numbers but one are in use,
//! further results are kept for whole keys, by the mask of all bits, which has the last number.

use netloom_pipeline::FlowKey;

/// Masks at a time: `NL_FL_MASKS`.
pub(super) const MASKS: usize = 32;
/// The number of the mask of all bits.
const WHOLE: u8 = 31;

/// The mask of all bits.
const ALL: FlowKey = FlowKey([u64::MAX; netloom_pipeline::key::WORDS]);

/// Words that received frames can have: `NL_FL_COMPARED`. Metadata and tunnel are not among them.
pub(super) const COMPARED: usize = 14;
// Metadata and tunnel, zero in every received frame: comparing them would only cost time.
const NEVER: [usize; 2] = [1, 2];

/// The numbers of a mask's words that are compared.
pub(super) fn numbers(mask: &FlowKey) -> impl Iterator<Item = usize> {
    let words = mask.0;
    (0..words.len()).filter(move |number| words[*number] != 0 && !NEVER.contains(number))
}

/// The compared part of a key: its words in a mask, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) words: [u64; COMPARED],
    pub(super) count: usize,
}

impl Compared {
    /// Of a key; `None` if no received frame agrees with it.
    pub(super) fn new(key: &FlowKey, mask: &FlowKey) -> Option<Compared> {
        let masked = key.masked(mask);
        if NEVER.iter().any(|number| masked.0[*number] != 0) {
            return None;
        }
        let mut compared = Compared { words: [0; COMPARED], count: 0 };
        for (place, number) in compared.words.iter_mut().zip(numbers(mask)) {
            *place = masked.0[number];
            compared.count += 1;
        }
        Some(compared)
    }

    /// The words.
    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }

    /// The key that they are of, other bits zero.
    pub(super) fn key(&self, mask: &FlowKey) -> FlowKey {
        let mut key = FlowKey::default();
        for (word, number) in self.words().iter().zip(numbers(mask)) {
            key.0[number] = *word;
        }
        key
    }
}

/// A mask with results.
#[derive(Clone, Debug)]
struct Used {
    mask: FlowKey,
    results: usize,
    /// Hits at the last order, and between that and the one before.
    hits: u64,
    recent: u64,
}

/// The masks.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks {
    used: [Option<Used>; MASKS],
    order: Vec<u8>,
    /// Given up, but perhaps still in the hands of a program.
    waiting: Vec<u8>,
}

impl Masks {
    /// A mask that another process made.
    pub(super) fn adopt(&mut self, number: u8, mask: FlowKey) {
        if let Some(place) = self.used.get_mut(usize::from(number)) {
            *place = Some(Used { mask, results: 0, hits: 0, recent: 0 });
            self.order.push(number);
        }
    }

    /// How many words of a mask in use are compared.
    pub(super) fn words(&self, number: u8) -> Option<usize> {
        let used = self.used.get(usize::from(number))?.as_ref()?;
        Some(numbers(&used.mask).count())
    }

    /// One more result of an adopted mask.
    pub(super) fn take(&mut self, number: u8) {
        if let Some(Some(used)) = self.used.get_mut(usize::from(number)) {
            used.results += 1;
        }
    }

    /// A mask's number, if it is in use.
    pub(super) fn find(&self, mask: &FlowKey) -> Option<u8> {
        let is = |number: &u8| {
            self.used[usize::from(*number)].as_ref().is_some_and(|used| used.mask == *mask)
        };
        self.order.iter().copied().find(is)
    }

    fn free(&self) -> Option<u8> {
        (0..WHOLE).find(|number| {
            self.used[usize::from(*number)].is_none() && !self.waiting.contains(number)
        })
    }

    /// Whether another mask would get a number.
    pub(super) fn has_room(&self) -> bool {
        self.free().is_some()
    }

    /// One more result of a mask: its number, the mask to be used, and whether programs do not know it yet. `None`
    /// if that has to wait until programs have ended.
    pub(super) fn add(&mut self, mask: &FlowKey) -> Option<(u8, FlowKey, bool)> {
        let (number, mask) = match (self.find(mask), self.free()) {
            (Some(number), _) => (number, *mask),
            // The mask of all bits always has the same number, so that no two numbers stand for it.
            (None, Some(number)) if *mask != ALL => (number, *mask),
            _ => (WHOLE, ALL),
        };
        // Only the number of the mask of all bits can be one of these: `free` skips them.
        if self.waiting.contains(&number) {
            return None;
        }
        let place = &mut self.used[usize::from(number)];
        if let Some(used) = place {
            used.results += 1;
            return Some((number, mask, false));
        }
        *place = Some(Used { mask, results: 1, hits: 0, recent: 0 });
        self.order.push(number);
        Some((number, mask, true))
    }

    /// One result less; returns whether the mask is no longer in the order.
    pub(super) fn release(&mut self, number: u8) -> bool {
        let Some(place) = self.used.get_mut(usize::from(number)) else { return false };
        let Some(used) = place else { return false };
        used.results = used.results.saturating_sub(1);
        if used.results > 0 {
            return false;
        }
        *place = None;
        self.order.retain(|other| *other != number);
        self.waiting.push(number);
        true
    }

    /// No program has a mask that was given up.
    pub(super) fn settled(&mut self) {
        self.waiting.clear();
    }

    /// The numbers, in the order in which programs try them.
    pub(super) fn order(&self) -> Vec<u8> {
        self.order.clone()
    }

    /// Orders by hits since the last call; returns whether the order changed.
    pub(super) fn reorder(&mut self, hits: &[u64; MASKS]) -> bool {
        for (used, hits) in self.used.iter_mut().zip(hits) {
            if let Some(used) = used {
                used.recent = hits.wrapping_sub(used.hits);
                used.hits = *hits;
            }
        }
        let before = self.order.clone();
        let used = &self.used;
        let recent =
            |number: &u8| used[usize::from(*number)].as_ref().map_or(0, |used| used.recent);
        // Stable: masks with as many hits keep their places, and the order is not written in vain.
        self.order.sort_by_key(|number| std::cmp::Reverse(recent(number)));
        self.order != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(bits: u64) -> FlowKey {
        let mut mask = FlowKey::default();
        mask.0[3] = bits;
        mask
    }

    #[test]
    fn numbers_are_bounded_and_used_again_when_programs_have_ended() {
        let mut masks = Masks::default();
        for bits in 1..=31 {
            assert!(masks.add(&mask(bits)).is_some_and(|(number, _, new)| new && number < WHOLE));
        }
        assert!(!masks.has_room());
        assert_eq!(masks.add(&mask(99)), Some((WHOLE, ALL, true)));
        assert_eq!(masks.add(&mask(100)), Some((WHOLE, ALL, false)));
        let number = masks.find(&mask(7)).unwrap();
        assert_eq!(masks.add(&mask(7)), Some((number, mask(7), false)));
        assert!(!masks.release(number));
        assert!(masks.release(number));
        assert!(!masks.has_room());
        masks.settled();
        assert_eq!(masks.add(&mask(99)), Some((number, mask(99), true)));
        assert_eq!(masks.order().len(), 32);
    }

    #[test]
    fn what_is_compared_comes_back_as_a_key() {
        let mut key = FlowKey(std::array::from_fn(|word| word as u64 + 100));
        let mut mask = ALL;
        assert_eq!(Compared::new(&key, &mask), None, "no frame has metadata");
        (key.0[1], key.0[2]) = (0, 0);
        let compared = Compared::new(&key, &mask).unwrap();
        assert_eq!((compared.count, compared.key(&mask)), (COMPARED, key));
        mask.0[3..15].fill(0);
        let compared = Compared::new(&key, &mask).unwrap();
        assert_eq!(compared.words(), [100, 115]);
        assert_eq!(compared.key(&mask), key.masked(&mask));
    }

    #[test]
    fn those_with_most_hits_come_first() {
        let mut masks = Masks::default();
        for bits in 1..=3 {
            assert!(masks.add(&mask(bits)).is_some());
        }
        let mut hits = [0; MASKS];
        hits[2] = 5;
        assert!(masks.reorder(&hits));
        assert_eq!(masks.order(), [2, 0, 1]);
        hits[0] = 1;
        assert!(masks.reorder(&hits));
        assert_eq!(masks.order(), [0, 2, 1]);
        assert!(!masks.reorder(&hits) || masks.order() == [0, 2, 1]);
    }
}
