//! Where results are found: buckets of entries, by a hash of the words that are compared.
//!
//! An entry is in the first or in the second bucket of its hash. A bucket counts the entries that had to go on to
//! their second one, so that others need not be looked for there. Programs read meanwhile: an entry is written
//! at once, and is no more than a hint for them (`find.bpf.h`).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::chunks::{Chunks, Form};

/// `NL_FL_BUCKETS`, of a chunk.
pub(super) const BUCKETS: usize = 2048;
/// `NL_FL_WAYS`.
const WAYS: usize = 7;
/// The word of a bucket behind its entries.
const BEYOND: usize = WAYS;

/// The buckets' memory.
pub(super) const FORM: Form =
    Form { name: "nl_fl_buckets", more: "nl_fl_buckets_x", size: 64, elements: BUCKETS };

/// The hash of a mask's number and words: `nl_fl_by_mask`.
pub(super) fn hash(seed: u64, number: u8, words: &[u64]) -> u64 {
    let mut odd = 0x9e37_79b9_7f4a_7c15_u64;
    let mut sum = seed.wrapping_add(u64::from(number));
    for word in words {
        sum = sum.wrapping_add((word ^ word >> 32).wrapping_mul(odd));
        odd = odd.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(2);
    }
    let sum = (sum ^ sum >> 32).wrapping_mul(0x9fb2_1c65_1e98_df25);
    sum ^ sum >> 29
}

/// What entries of this hash have in their upper half.
fn tag(hash: u64) -> u64 {
    hash >> 32 | 1
}

fn slot_of(entry: u64) -> u32 {
    u32::try_from(entry & u64::from(u32::MAX)).unwrap_or(0)
}

/// The entries.
#[derive(Debug)]
pub(super) struct Index {
    chunks: Chunks,
}

impl Index {
    /// Of a number of chunks that is a power of two.
    pub(super) fn new(chunks: Chunks) -> Index {
        Index { chunks }
    }

    /// How many buckets there are.
    pub(super) fn buckets(&self) -> usize {
        self.chunks.len() * BUCKETS
    }

    /// The two buckets of a hash.
    fn places(&self, hash: u64) -> [usize; 2] {
        let most = self.buckets() - 1;
        [hash, hash >> 16].map(|part| usize::try_from(part & 0xffff_ffff).unwrap_or(0) & most)
    }

    fn word(&self, bucket: usize, word: usize) -> &AtomicU64 {
        self.chunks.word(bucket / BUCKETS, bucket % BUCKETS, word)
    }

    fn entry(&self, bucket: usize, way: usize) -> u64 {
        self.word(bucket, way).load(Ordering::Relaxed)
    }

    /// The slots that may be of this hash.
    pub(super) fn slots(&self, hash: u64) -> impl Iterator<Item = u32> {
        let [first, second] = self.places(hash);
        let all = (0..WAYS).map(move |way| (first, way)).chain((0..WAYS).map(move |w| (second, w)));
        let entries = all.map(|(bucket, way)| self.entry(bucket, way));
        entries.filter(move |entry| entry >> 32 == tag(hash)).map(slot_of)
    }

    /// Adds an entry; returns whether there was room for it. Programs would not tell it from one of the same hash.
    pub(super) fn insert(&self, hash: u64, slot: u32) -> bool {
        if self.slots(hash).next().is_some() {
            return false;
        }
        let [first, second] = self.places(hash);
        let free = |bucket: usize| (0..WAYS).find(|way| self.entry(bucket, *way) == 0);
        let (bucket, way) = match (free(first), free(second)) {
            (Some(way), _) => (first, way),
            (None, Some(way)) => {
                self.word(first, BEYOND).fetch_add(1, Ordering::Release);
                (second, way)
            }
            (None, None) => return false,
        };
        let entry = tag(hash) << 32 | u64::from(slot);
        self.word(bucket, way).store(entry, Ordering::Release);
        true
    }

    /// Removes an entry.
    pub(super) fn remove(&self, hash: u64, slot: u32) {
        let [first, second] = self.places(hash);
        let entry = tag(hash) << 32 | u64::from(slot);
        let found = |bucket: usize| (0..WAYS).find(|way| self.entry(bucket, *way) == entry);
        if let Some(way) = found(first) {
            self.word(first, way).store(0, Ordering::Release);
        } else if let Some(way) = found(second) {
            self.word(second, way).store(0, Ordering::Release);
            self.word(first, BEYOND).fetch_sub(1, Ordering::Release);
        }
    }

    /// Leaves the entries that are right, and returns their slots; `hash` says what a slot's is, if it has a result. A
    /// process that ended while it changed them may have left others.
    pub(super) fn repair(&self, hash: impl Fn(u32) -> Option<u64>) -> HashSet<u32> {
        let mut right = HashSet::new();
        let mut beyond = vec![0; self.buckets()];
        for (bucket, way) in (0..self.buckets()).flat_map(|b| (0..WAYS).map(move |way| (b, way))) {
            let entry = self.entry(bucket, way);
            let slot = slot_of(entry);
            let found = hash(slot).filter(|hash| entry != 0 && tag(*hash) == entry >> 32);
            match found.map(|hash| self.places(hash)) {
                Some([first, second])
                    if (bucket == first || bucket == second) && right.insert(slot) =>
                {
                    beyond[first] += u64::from(bucket != first);
                }
                _ if entry != 0 => self.word(bucket, way).store(0, Ordering::Release),
                _ => {}
            }
        }
        for (bucket, count) in beyond.into_iter().enumerate() {
            self.word(bucket, BEYOND).store(count, Ordering::Release);
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
