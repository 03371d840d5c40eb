//! The index alone, in memory that no program sees, made full on purpose.

use std::collections::HashMap;

use super::*;

/// An index of one chunk, and what is in it: hashes by slot.
struct Filled {
    index: Index,
    hashes: HashMap<u32, u64>,
}

impl Filled {
    fn new() -> Filled {
        Filled { index: Index::new(Chunks::in_memory(FORM, 1)), hashes: HashMap::new() }
    }

    fn add(&mut self, slot: u32, hash: u64) -> bool {
        let added = self.index.insert(hash, slot, |slot| self.hashes.get(&slot).copied());
        if added {
            self.hashes.insert(slot, hash);
        }
        added
    }

    fn remove(&mut self, slot: u32) {
        let hash = self.hashes.remove(&slot).unwrap();
        self.index.remove(hash, slot);
    }

    /// What programs find: in the first bucket or, if entries went on from there, in the second.
    fn find(&self, hash: u64) -> Option<u32> {
        let [first, second] = self.index.places(hash);
        let of = |bucket: usize| {
            let entries = (0..WAYS).map(move |way| self.index.entry(bucket, way));
            let mut right = entries.filter(|entry| entry >> 32 == tag(hash));
            right.next().map(slot_of)
        };
        of(first).or_else(|| (self.beyond(first) > 0).then(|| of(second)).flatten())
    }

    fn beyond(&self, bucket: usize) -> u64 {
        self.index.entry(bucket, BEYOND)
    }

    /// Every entry is found, in one place, and counts are what a process that takes over would write.
    fn check(&self) {
        for (slot, hash) in &self.hashes {
            assert_eq!(self.find(*hash), Some(*slot), "{hash:x}");
        }
        let places = || (0..BUCKETS).flat_map(|bucket| (0..WAYS).map(move |way| (bucket, way)));
        let used = places().filter(|(bucket, way)| self.index.entry(*bucket, *way) != 0);
        assert_eq!(used.count(), self.hashes.len());
        let counts = || (0..BUCKETS).map(|bucket| self.beyond(bucket)).collect::<Vec<_>>();
        let before = counts();
        assert_eq!(
            self.index.repair(|slot| self.hashes.get(&slot).copied()).len(),
            self.hashes.len()
        );
        assert_eq!(before, counts());
    }
}

/// The hash of two buckets, and a tag.
fn made(first: u64, second: u64, tag: u64) -> u64 {
    tag << 33 | second << 16 | first
}

/// Slots of a bucket that is full with entries whose other bucket is another.
fn fill(filled: &mut Filled, bucket: u64, other: u64) -> Vec<u32> {
    let slots = (0..WAYS).map(|_| {
        let slot = u32::try_from(filled.hashes.len()).unwrap() + 1;
        assert!(filled.add(slot, made(bucket, other, u64::from(slot))));
        slot
    });
    slots.collect()
}

/// Tests against the kernel show that programs find the same ones; here, that words and their order count.
#[test]
fn hashes_are_of_all_words_in_order() {
    let all = [
        hash(1, 0, &[0, 0]),
        hash(1, 0, &[0, 7]),
        hash(1, 0, &[7, 0]),
        hash(1, 0, &[7 << 32, 0]),
        hash(2, 0, &[7, 0]),
        hash(1, 2, &[7, 0]),
    ];
    let different: HashSet<u64> = all.iter().copied().collect();
    assert_eq!(different.len(), all.len(), "{all:x?}");
}

#[test]
fn an_entry_whose_buckets_are_full_has_another_one_move() {
    let mut filled = Filled::new();
    fill(&mut filled, 5, 50);
    fill(&mut filled, 9, 90);
    assert!(filled.add(100, made(5, 9, 1000)));
    assert_eq!((filled.beyond(5), filled.beyond(9)), (1, 0));
    filled.check();
    // Those of 5 move until their other bucket is full, then one of 9 does.
    for slot in 101..107 {
        assert!(filled.add(slot, made(5, 9, 1000 + u64::from(slot))), "{slot}");
    }
    assert_eq!((filled.beyond(5), filled.beyond(9)), (7, 0));
    assert!(filled.add(107, made(5, 9, 1107)));
    assert_eq!((filled.beyond(5), filled.beyond(9)), (8, 1));
    filled.check();
    let all: Vec<u32> = filled.hashes.keys().copied().collect();
    all.into_iter().for_each(|slot| filled.remove(slot));
    filled.check();
    assert!((0..BUCKETS).all(|bucket| filled.beyond(bucket) == 0));
}

#[test]
fn an_entry_that_went_on_comes_back_where_others_need_its_place() {
    let mut filled = Filled::new();
    let slots = fill(&mut filled, 9, 90);
    assert!(filled.add(8, made(9, 90, 8)));
    assert_eq!(filled.beyond(9), 1);
    filled.remove(slots[2]);
    // These can be nowhere else.
    for slot in 11..18 {
        assert!(filled.add(slot, made(90, 90, u64::from(slot))), "{slot}");
    }
    assert_eq!(filled.beyond(9), 0);
    filled.check();
    assert!(!filled.add(18, made(90, 90, 18)));
}

/// Of a process that ended between the steps of a move, the entry is in both of its buckets.
#[test]
fn a_move_that_was_cut_short_is_repaired() {
    let mut filled = Filled::new();
    let slots = fill(&mut filled, 9, 90);
    let entry = filled.index.entry(9, 3);
    filled.index.word(90, 0).store(entry, Ordering::Release);
    filled.index.word(9, BEYOND).store(1, Ordering::Release);
    let right = filled.index.repair(|slot| filled.hashes.get(&slot).copied());
    assert_eq!(right, slots.into_iter().collect());
    assert_eq!(filled.beyond(9), 0);
    filled.check();
}

#[test]
fn where_nothing_can_move_nothing_changes() {
    let mut filled = Filled::new();
    fill(&mut filled, 5, 9);
    fill(&mut filled, 9, 5);
    assert!(!filled.add(100, made(5, 9, 1000)));
    filled.check();
}

/// At twice the load that growing memory allows; without moves some hundred would find no place.
#[test]
fn all_of_many_entries_find_a_place_while_others_come_and_go() {
    let mut filled = Filled::new();
    let mut number = 0_u64;
    let mut next = || {
        number += 1;
        hash(7, 0, &[number])
    };
    let most = u32::try_from(BUCKETS * WAYS * 6 / 10).unwrap();
    for slot in 1..=most {
        assert!(filled.add(slot, next()), "{slot}");
    }
    filled.check();
    for slot in (1..=most).step_by(3) {
        filled.remove(slot);
        assert!(filled.add(slot, next()), "{slot}");
    }
    filled.check();
}
