//! Random numbers by position, not in sequence: a function of seed, stream and packet number.
//!
//! Each kind of impairment draws from a stream of its own, so that its fates do not
//! depend on whether another is active. A draw is two rounds of the finaliser of SplitMix64 (Steele,
//! Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014; constants of
//! Stafford's variant 13). Not for secrets.

use crate::Share;

/// 2^64 divided by the golden ratio, odd: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

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
        let wide = (u128::from(self.draw(stream, packet)) * u128::from(bound)) >> 64;
        u32::try_from(wide).unwrap_or(0)
    }

    /// Between 0 and 1, exclusive: the middles of 2^53 equal parts.
    pub(crate) fn unit(self, stream: Stream, packet: u64) -> f64 {
        ((self.draw(stream, packet) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64: a bijection in which every bit of the input affects every bit.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The seed of one direction of a link: from the configured seed, else from the link's name
/// (64-bit FNV-1a over it). The two directions differ in either case.
pub fn seed_for(link: &str, direction: u8, asked: Option<u64>) -> u64 {
    let name = || {
        link.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let base = asked.unwrap_or_else(name);
    mix(base.wrapping_add(u64::from(direction).wrapping_mul(STEP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_the_same_for_ever() {
        let random = Random::new(42);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf, "SplitMix64 of seed 0");
        assert_eq!(random.draw(Stream::Loss, 0), random.draw(Stream::Loss, 0));
        assert_ne!(random.draw(Stream::Loss, 0), random.draw(Stream::Loss, 1));
        assert_ne!(random.draw(Stream::Loss, 0), random.draw(Stream::Corrupt, 0));
        assert_ne!(seed_for("a--b", 0, None), seed_for("a--b", 1, None));
        assert_ne!(seed_for("a--b", 0, Some(1)), seed_for("a--b", 1, Some(1)));
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
