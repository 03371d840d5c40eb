//! Where results are found: buckets of entries, by a hash of the words that are compared.
//!
//! An entry is in the first or in the second bucket of its hash. A bucket counts the entries that had to go on to
//! their second one, so that others need not be looked for there. Where both are full, an entry of one of them moves to its
//! own other bucket, as in a cuckoo table. Programs read meanwhile: an entry is written at once, and is no more than a hint
//! for them (`find.bpf.h`); one that moves is in its new place before it leaves the old one.

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
    // A place without an entry is 0, so no tag may be.
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
        // As the programs do, which take 32 bits for each place (`bucket_at`).
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

    /// The first place of a bucket without an entry.
    fn free(&self, bucket: usize) -> Option<usize> {
        (0..WAYS).find(|way| self.entry(bucket, *way) == 0)
    }

    /// Adds an entry; returns whether there was room for it. Programs would not tell it from one of the same hash. What a
    /// slot's hash is, if it has a result, says `hash_of`.
    pub(super) fn insert(
        &self,
        hash: u64,
        slot: u32,
        hash_of: impl Fn(u32) -> Option<u64>,
    ) -> bool {
        if self.slots(hash).next().is_some() {
            return false;
        }
        let places = self.places(hash);
        let found = places.into_iter().find_map(|bucket| Some((bucket, self.free(bucket)?)));
        let made = || places.into_iter().find_map(|b| Some((b, self.make_room(b, &hash_of)?)));
        let Some((bucket, way)) = found.or_else(made) else { return false };
        // Counted first: a program that misses in the first bucket must know to go on.
        if bucket != places[0] {
            self.word(places[0], BEYOND).fetch_add(1, Ordering::Release);
        }
        let entry = tag(hash) << 32 | u64::from(slot);
        self.word(bucket, way).store(entry, Ordering::Release);
        true
    }

    /// Has an entry of a full bucket move to its other one; returns its place.
    fn make_room(&self, bucket: usize, hash_of: &impl Fn(u32) -> Option<u64>) -> Option<usize> {
        (0..WAYS).find(|way| {
            let entry = self.entry(bucket, *way);
            // An entry that does not fit its slot's result tells no second place.
            let hash = hash_of(slot_of(entry)).filter(|hash| tag(*hash) == entry >> 32);
            hash.is_some_and(|hash| self.leave((bucket, *way), entry, hash))
        })
    }

    /// Moves an entry to its other bucket, unless that is full or has one of the same hash; returns whether it did.
    fn leave(&self, (bucket, way): (usize, usize), entry: u64, hash: u64) -> bool {
        let [first, second] = self.places(hash);
        let other = if bucket == first { second } else { first };
        let Some(free) = self.free(other) else { return false };
        if (bucket != first && bucket != second) || self.has_tag(other, tag(hash)) {
            return false;
        }
        self.word(other, free).store(entry, Ordering::Release);
        // Programs that find it in neither place read one before it came and the other after it went: a miss.
        if other == first {
            self.word(first, BEYOND).fetch_sub(1, Ordering::Release);
        } else {
            self.word(first, BEYOND).fetch_add(1, Ordering::Release);
        }
        self.word(bucket, way).store(0, Ordering::Release);
        true
    }

    fn has_tag(&self, bucket: usize, tag: u64) -> bool {
        (0..WAYS).any(|way| self.entry(bucket, way) >> 32 == tag)
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
            // Of a slot found twice one entry stays: a move was cut short between its two writes.
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
mod tests;
