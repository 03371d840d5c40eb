//! Which packets' times are kept: by a fixed number of hash bits, or by as many as the room requires.
//!
//! A fixed `hash_length` selects packets whose hash has the same low bits as
//! `match_value`: one in 2^length. [`Samples`] lengthens it by fractions of a bit as needed, and
//! ends with at least half its room used: with the bits reversed, the bits that must agree become a
//! number that must be below a [`Threshold`], and "one bit more" halves the threshold. Thresholds
//! nest: a higher one selects everything a lower one does, so lists of two points are compared at the
//! lower one.

use std::cmp::Ordering;

use serde::Serialize;

use crate::{Error, HashFunction, Result};

/// The bound on the bit-reversed difference of hash and `match_value`: 0 (no packet) to 2^32 (all).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Threshold(u64);

impl Threshold {
    /// Selects every packet.
    pub const ALL: Threshold = Threshold(1 << 32);

    /// The threshold of a hash length: 2^(32 - length); `None` above 32.
    pub fn of_length(length: u8) -> Option<Threshold> {
        (length <= 32).then(|| Threshold(1 << (32 - length)))
    }

    /// The threshold as a number, 0 to 2^32.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The threshold that selects half of what this one does: one bit more of hash length.
    pub(crate) fn half(self) -> Threshold {
        Threshold(self.0 / 2)
    }

    /// How many low bits of the hash certainly agree: the `hash_length` to report.
    pub fn hash_length(self) -> u8 {
        // From 32 to 64 zeros, because the threshold is 2^32 at most.
        let zeros = self.0.saturating_sub(1).leading_zeros();
        u8::try_from(zeros.saturating_sub(32)).unwrap_or(32)
    }

    /// The share of all packets that it selects, if hashes are uniform.
    pub fn rate(self) -> f64 {
        self.0 as f64 / Threshold::ALL.0 as f64
    }
}

/// Selection by the low bits of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    match_value: u32,
    threshold: Threshold,
}

impl Selection {
    /// Selects hashes whose `hash_length` low bits equal those of `match_value`; its other bits are
    /// ignored.
    ///
    /// # Errors
    ///
    /// A length above the function's bits.
    pub fn new(function: HashFunction, match_value: u32, hash_length: u8) -> Result<Selection> {
        match Threshold::of_length(hash_length) {
            Some(threshold) if hash_length <= function.bits() => {
                Ok(Selection { match_value, threshold })
            }
            _ => Err(Error::Selection("hash_length is above the bits of the hash function")),
        }
    }

    /// The same with another threshold.
    pub fn at(self, threshold: Threshold) -> Selection {
        Selection { threshold, ..self }
    }

    /// The threshold.
    pub fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// The distance of a hash from `match_value`: their difference with its bits reversed, so that
    /// agreement in n low bits gives a number below 2^(32 - n).
    pub fn distance(&self, hash: u32) -> u32 {
        (hash ^ self.match_value).reverse_bits()
    }

    /// Whether a hash is selected.
    pub fn selects(&self, hash: u32) -> bool {
        u64::from(self.distance(hash)) < self.threshold.0
    }
}

/// A packet with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Sample {
    /// The hash that selected it.
    pub hash: u32,
    /// Its identity at other points.
    pub identity: u32,
    /// Its time, in nanoseconds of the point's clock (or from the block's origin, if so at
    /// all compared points).
    pub time: u64,
}

/// A bounded number of samples of one block, by a dynamic hash length.
///
/// It holds *exactly* the seen packets whose distance is below the threshold, in order of
/// arrival. The threshold only falls, and only when a packet has no room. It is halved
/// (one bit more of hash length), then bisected between values that keep too few and too
/// many, until it keeps between half the room (rounded up) and all of it. So once the room was full,
/// it is never less than half full, unless that many packets
/// have the same hash: they cannot be distinguished, are all left out, and
/// [`crowded`](Self::crowded) says so.
#[derive(Clone, Debug)]
pub struct Samples {
    selection: Selection,
    most: usize,
    kept: Vec<Sample>,
    crowded: bool,
}

impl Samples {
    /// Room for `most` samples; starts with everything that `selection` selects.
    ///
    /// # Errors
    ///
    /// Room for fewer than two.
    pub fn new(selection: Selection, most: usize) -> Result<Samples> {
        if most < 2 {
            return Err(Error::Selection("npkts must be at least 2: half of it has to remain"));
        }
        Ok(Samples { selection, most, kept: Vec::new(), crowded: false })
    }

    /// Offers a packet; whether it is kept now.
    pub fn offer(&mut self, sample: Sample) -> bool {
        if !self.selection.selects(sample.hash) {
            return false;
        }
        self.kept.push(sample);
        if self.kept.len() <= self.most {
            return true;
        }
        let (threshold, crowded) = self.lower();
        self.crowded |= crowded;
        self.selection = self.selection.at(threshold);
        let selection = self.selection;
        self.kept.retain(|kept| selection.selects(kept.hash));
        selection.selects(sample.hash)
    }

    /// The current selection.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// The samples kept, in order of arrival.
    pub fn kept(&self) -> &[Sample] {
        &self.kept
    }

    /// Whether more packets of one hash than half the room had to be left out together.
    pub fn crowded(&self) -> bool {
        self.crowded
    }

    /// The next threshold, and whether it keeps too few because no better one exists.
    fn lower(&self) -> (Threshold, bool) {
        let least = self.most.div_ceil(2);
        // Too few samples are below `low`, too many below `high`.
        let (mut low, mut high) = (0, self.selection.threshold.0);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.fits(self.below(middle), least) {
                Ordering::Less => low = middle,
                Ordering::Equal => return (Threshold(middle), false),
                Ordering::Greater => high = middle,
            }
        }
        (Threshold(low), true)
    }

    fn below(&self, threshold: u64) -> usize {
        let below = |s: &&Sample| u64::from(self.selection.distance(s.hash)) < threshold;
        self.kept.iter().filter(below).count()
    }

    fn fits(&self, count: usize, least: usize) -> Ordering {
        if count < least {
            Ordering::Less
        } else if count > self.most {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

#[cfg(test)]
mod tests;
