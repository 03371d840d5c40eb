//! The product of two rows of limbs before carries: a number-theoretic transform modulo 2^64 - 2^32 + 1.
//!
//! Exact while the sum of products at a place stays below the modulus: with limbs below 10^6, up to 18 million limbs. Its
//! prime has roots of unity for all powers of two up to 2^32.

/// 2^64 - 2^32 + 1.
const MODULUS: u64 = 0xffff_ffff_0000_0001;
/// 2^64 modulo that.
const EXCESS: u64 = 0xffff_ffff;
/// A generator of the multiplicative group.
const GENERATOR: u64 = 7;

/// Sums of products at each place; the last one is 0.
pub(super) fn product(a: &[u32], b: &[u32]) -> Vec<u64> {
    let length = a.len() + b.len();
    let size = length.next_power_of_two();
    let roots = roots(size);
    let mut left = lengthened(a, size);
    forward(&mut left, &roots);
    if a == b {
        left.iter_mut().for_each(|value| *value = times(*value, *value));
    } else {
        let mut right = lengthened(b, size);
        forward(&mut right, &roots);
        left.iter_mut().zip(&right).for_each(|(own, other)| *own = times(*own, *other));
    }
    inverse(&mut left, &roots);
    left.truncate(length);
    left
}

fn lengthened(limbs: &[u32], size: usize) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::with_capacity(size);
    all.extend(limbs.iter().map(|limb| u64::from(*limb)));
    all.resize(size, 0);
    all
}

fn plus(a: u64, b: u64) -> u64 {
    let (sum, over) = a.overflowing_add(b);
    let sum = if over { sum.wrapping_add(EXCESS) } else { sum };
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

fn minus(a: u64, b: u64) -> u64 {
    let (rest, under) = a.overflowing_sub(b);
    if under { rest.wrapping_sub(EXCESS) } else { rest }
}

/// 2^96 is -1 and 2^64 is 2^32 - 1 modulo the prime.
fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the product")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    let (rest, under) = low.overflowing_sub(high >> 32);
    let rest = if under { rest.wrapping_sub(EXCESS) } else { rest };
    let (sum, over) = rest.overflowing_add((high & EXCESS) * EXCESS);
    let sum = if over { sum.wrapping_add(EXCESS) } else { sum };
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

fn power(base: u64, exponent: u64) -> u64 {
    let (mut result, mut square, mut rest) = (1, base, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        rest /= 2;
    }
    result
}

/// The powers of a root of unity of this order, up to half of it.
fn roots(size: usize) -> Vec<u64> {
    let root = power(GENERATOR, (MODULUS - 1) / size as u64);
    let powers = std::iter::successors(Some(1), |last| Some(times(*last, root)));
    powers.take(size / 2).collect()
}

/// From places to frequencies; these come in another order, which [`inverse`] undoes.
fn forward(values: &mut [u64], roots: &[u64]) {
    let mut half = values.len() / 2;
    let mut step = 1;
    while half > 0 {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), root) in low.iter_mut().zip(high).zip(roots.iter().step_by(step)) {
                (*a, *b) = (plus(*a, *b), times(minus(*a, *b), *root));
            }
        }
        half /= 2;
        step *= 2;
    }
}

fn inverse(values: &mut [u64], roots: &[u64]) {
    let size = values.len();
    let (mut half, mut step) = (1, size / 2);
    while half < size {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), root) in low.iter_mut().zip(high).zip(roots.iter().step_by(step)) {
                let turned = times(*b, *root);
                (*a, *b) = (plus(*a, turned), minus(*a, turned));
            }
        }
        half *= 2;
        step /= 2;
    }
    // With the roots themselves instead of their inverses, places come backwards.
    values[1..].reverse();
    let scale = power(size as u64, MODULUS - 2);
    values.iter_mut().for_each(|value| *value = times(*value, scale));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_modulo_the_prime() {
        let wide = |value: u128| u64::try_from(value % u128::from(MODULUS)).unwrap();
        let some =
            [0, 1, 2, EXCESS, EXCESS + 1, MODULUS - 1, MODULUS - EXCESS, 0x1234_5678_9abc_def0];
        for a in some {
            for b in some {
                let (x, y) = (u128::from(a), u128::from(b));
                assert_eq!(times(a, b), wide(x * y), "{a} {b}");
                assert_eq!(plus(a, b), wide(x + y), "{a} {b}");
                assert_eq!(minus(a, b), wide(x + u128::from(MODULUS) - y), "{a} {b}");
            }
        }
        assert_eq!(power(GENERATOR, MODULUS - 1), 1);
    }

    #[test]
    fn products_are_sums_of_products() {
        assert_eq!(product(&[1, 2, 3], &[4, 5]), [4, 13, 22, 15, 0]);
        assert_eq!(product(&[7], &[7]), [49, 0]);
    }
}
