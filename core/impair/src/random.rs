//! Random numbers by position, not in sequence: a function of seed, stream and packet number.
//!
//! Each kind of impairment draws from a stream of its own, so that its fates do not
//! depend on whether another is active. A draw is two rounds of the output function of SplitMix64. Not
//! for secrets.

use netloom_digest::fnv1a;
use netloom_digest::splitmix::{STEP, mix};

use crate::Share;

/// What a number is drawn for. The discriminant affects the numbers: do not renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Stream {
    Loss = 1,
    LossRepeat = 2,
    State = 3,
    Jitter = 4,
    JitterAngle = 5,
    JitterRepeat = 6,
    Duplicate = 7,
    Reorder = 8,
    Corrupt = 9,
    Bit = 10,
}

/// The random numbers of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    seed: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random { seed: mix(seed.wrapping_add(STEP)) }
    }

    /// The draw of a stream for a packet: any of 2^64 values.
    pub(crate) fn draw(self, stream: Stream, packet: u64) -> u64 {
        let key = self.seed ^ (stream as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
        mix(mix(packet.wrapping_mul(STEP).wrapping_add(key)) ^ key.rotate_left(32))
    }

    /// True with the probability of a share.
    pub(crate) fn chance(self, stream: Stream, packet: u64, share: Share) -> bool {
        share != Share::NONE && self.below(stream, packet, Share::ALL.0) < share.0
    }

    /// A number below `bound`, uniform to within 2^-32 of each share; 0 if `bound` is 0.
    pub(crate) fn below(self, stream: Stream, packet: u64, bound: u32) -> u32 {
        // The high half of the product instead of a remainder (Lemire, Fast Random Integer
        // Generation in an Interval, 2019).
        let wide = (u128::from(self.draw(stream, packet)) * u128::from(bound)) >> 64;
        u32::try_from(wide).unwrap_or(0)
    }

    /// Between 0 and 1, exclusive: the middles of 2^53 equal parts.
    pub(crate) fn unit(self, stream: Stream, packet: u64) -> f64 {
        ((self.draw(stream, packet) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// The seed of one direction of a link: from the configured seed, else from the link's name
/// (64-bit FNV-1a over it). The two directions differ in either case.
pub fn seed_for(link: &str, direction: u8, asked: Option<u64>) -> u64 {
    let base = asked.unwrap_or_else(|| fnv1a::hash(link.as_bytes()));
    mix(base.wrapping_add(u64::from(direction).wrapping_mul(STEP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_the_same_for_ever() {
        let random = Random::new(42);
        assert_eq!(random.draw(Stream::Loss, 0), 0x8735_1852_4582_fffb);
        assert_eq!(random.draw(Stream::Loss, 1), 0xded0_142e_22d7_7a69);
        assert_eq!(random.draw(Stream::Bit, 7), 0x4e91_86f9_bcf5_dd72);
        let seeds = |asked| [0, 1].map(|direction| seed_for("a--b", direction, asked));
        assert_eq!(seeds(None), [0xa429_ead4_ac61_81c9, 0xfec7_7634_44dd_44e7]);
        assert_eq!(seeds(Some(1)), [0x5692_161d_100b_05e5, 0x910a_2dec_8902_5cc1]);
    }

    #[test]
    fn draws_are_even() {
        let random = Random::new(7);
        let mut count = [0u32; 16];
        for packet in 0..160_000 {
            count[random.below(Stream::Bit, packet, 16) as usize] += 1;
        }
        // Chi-squared with 15 degrees of freedom exceeds 37.7 in one of 1000 cases.
        let chi: f64 = count.iter().map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 37.7, "{chi}");
        assert_eq!(random.below(Stream::Bit, 1, 0), 0);
    }

    #[test]
    fn edges_of_a_share() {
        let random = Random::new(3);
        assert!((0..1000).all(|n| random.chance(Stream::Loss, n, Share::ALL)));
        assert!(!(0..1000).any(|n| random.chance(Stream::Loss, n, Share::NONE)));
        assert!((0..1000).all(|n| (0.0..1.0).contains(&random.unit(Stream::Jitter, n))));
    }
}
