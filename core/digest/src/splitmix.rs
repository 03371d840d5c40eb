//! SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014; constants of
//! Stafford's variant 13): its output function and the generator. Not for secrets.

/// 2^64 divided by the golden ratio, odd: by how much the generator's state grows with each number.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function: a bijection in which every bit of the input moves every bit of the output.
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The generator: small, fast, takes any seed.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator determined by the seed.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`, 0 for a bound of 0. By multiplication (Lemire 2019) without its
    /// rejection step: some numbers are likelier by `bound` / 2^64, which is negligible here.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        // Below `bound`, so it fits.
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// [`SplitMix64::below`] for places in a list of `length`.
    #[inline]
    pub fn index(&mut self, length: usize) -> usize {
        // A length has at most 64 bits, and what is below it fits again.
        usize::try_from(self.below(u64::try_from(length).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// One of the elements, each equally likely.
    ///
    /// # Panics
    /// There is none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// At least 0 and below 1, in steps of 2^-53.
    pub fn fraction(&mut self) -> f64 {
        // Both are below 2^53 or a power of two, and so exact.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// As many bytes as asked for.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next_u64().to_le_bytes());
        words.flatten().take(length).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_is_the_published_one() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first = [random.next_u64(), random.next_u64(), random.next_u64()];
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, published);
        assert_eq!(SplitMix64::new(0).next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(STEP), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let mut random = SplitMix64::new(7);
        assert!((0..1000).all(|_| random.below(7) < 7 && random.index(3) < 3));
        assert_eq!((random.below(0), random.index(0), random.below(1)), (0, 0, 0));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.fraction())));
        assert!((0..100).all(|_| [3, 5].contains(random.one_of(&[3, 5]))));
        assert!((0..30).all(|length| random.bytes(length).len() == length));
    }

    #[test]
    fn bytes_are_those_of_the_numbers_in_turn() {
        let (mut one, mut other) = (SplitMix64::new(9), SplitMix64::new(9));
        let words = [other.next_u64().to_le_bytes(), other.next_u64().to_le_bytes()].concat();
        assert_eq!(one.bytes(13), words[..13]);
    }
}
