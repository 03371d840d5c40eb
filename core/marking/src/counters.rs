//! The counters of one block of one flow at one point.
//!
//! One CPU writes a [`Tally`] of four words. Times are counted from the block's origin
//! ([`Schedule::origin`](crate::Schedule::origin)), so that their sum fits into 64 bits up to
//! [`Schedule::most_packets`](crate::Schedule::most_packets); above that it wraps, and the block
//! counts as incomplete. [`Totals`] combine the tallies of all CPUs, with a sum that cannot exceed
//! its 128 bits.

use serde::Serialize;

/// Packets and their times, as one CPU counts them. Times are nanoseconds from the block's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Packets; a super-frame counts its segments.
    pub packets: u64,
    /// Sum of their times, modulo 2^64.
    pub sum: u64,
    /// The earliest time; all ones without packets.
    pub first: u64,
    /// The latest time; 0 without packets.
    pub last: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { packets: 0, sum: 0, first: u64::MAX, last: 0 }
    }
}

impl Tally {
    /// Counts packets of one time.
    pub fn add(&mut self, time: u64, packets: u64) {
        self.packets += packets;
        self.sum = self.sum.wrapping_add(time.wrapping_mul(packets));
        self.first = self.first.min(time);
        self.last = self.last.max(time);
    }
}

/// Everything one CPU counts for a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All packets.
    pub all: Tally,
    /// Double-marked packets.
    pub double: Tally,
    /// Bytes on the wire of all packets.
    pub bytes: u64,
    /// Packets after the block was closed; they are in no other count.
    pub late: u64,
    /// Packets in [`all`](Self::all) that could not be hashed.
    pub unhashable: u64,
}

/// Packets and their times at one point, over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Sum of their times from the block's origin, in nanoseconds; serialised as text, because JSON's
    /// numbers do not hold 128 bits.
    #[serde(serialize_with = "text")]
    pub sum: u128,
    /// The earliest time from the block's origin, in nanoseconds.
    pub first: Option<u64>,
    /// The latest.
    pub last: Option<u64>,
}

fn text<S: serde::Serializer>(sum: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(sum)
}

impl Totals {
    /// Adds the tally of one CPU.
    pub fn add(&mut self, tally: &Tally) {
        if tally.packets == 0 {
            return;
        }
        self.packets += tally.packets;
        self.sum += u128::from(tally.sum);
        self.first = Some(self.first.map_or(tally.first, |first| first.min(tally.first)));
        self.last = Some(self.last.map_or(tally.last, |last| last.max(tally.last)));
    }

    /// The mean time (ATS) in nanoseconds from the block's origin.
    pub fn mean(&self) -> Option<f64> {
        // Whole part and rest apart: a float would lose digits of a large sum.
        let packets = u128::from(self.packets);
        let whole = self.sum.checked_div(packets)?;
        Some(whole as f64 + (self.sum % packets) as f64 / self.packets as f64)
    }

    /// The mean of the differences between consecutive times, in nanoseconds:
    /// (sum of (TS(n) - TS(n-1))) / (N - 1), which is (last - first) / (N - 1).
    pub fn mean_spacing(&self) -> Option<f64> {
        let gaps = self.packets.checked_sub(1).filter(|&gaps| gaps > 0)?;
        Some((self.last? - self.first?) as f64 / gaps as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!((Totals::default().mean(), Totals::default().mean_spacing()), (None, None));
    }

    proptest! {
        #[test]
        fn cpus_together_are_one_list(
            cpus in prop::collection::vec(prop::collection::vec(0u64..90_000_000_000, 0..50), 1..5),
        ) {
            let mut totals = Totals::default();
            for times in &cpus {
                let mut tally = Tally::default();
                times.iter().for_each(|&time| tally.add(time, 1));
                totals.add(&tally);
            }
            let mut all: Vec<u64> = cpus.concat();
            all.sort_unstable();
            prop_assert_eq!(totals.packets, all.len() as u64);
            prop_assert_eq!(totals.first, all.first().copied());
            prop_assert_eq!(totals.last, all.last().copied());
            let sum: u128 = all.iter().copied().map(u128::from).sum();
            prop_assert_eq!(totals.sum, sum);
            if let Some(mean) = totals.mean() {
                prop_assert!((mean - sum as f64 / all.len() as f64).abs() < 1e-3);
            }
            let gaps: Vec<f64> = all.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
            if let Some(spacing) = totals.mean_spacing() {
                let naive = gaps.iter().sum::<f64>() / gaps.len() as f64;
                prop_assert!((spacing - naive).abs() < 1e-3);
            }
        }
    }
}
