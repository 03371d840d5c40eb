//! `pi DIGITS`: computes this many decimals of π on one core; prints `{"seconds", "digest"}`.
//!
//! By Chudnovsky's series (1988) and binary splitting, one inverse by Newton's method and one inverse root, in decimal numbers
//! of our own ([`number`]). The digest is FNV-1a of the digits `3141…`, which the caller compares.

mod number;
mod transform;

use std::time::Instant;

use anyhow::{Result, bail};
use serde::Serialize;

use number::{LIMB_DIGITS, Number};

/// Decimals of a term of the series: log10(640320³ / 1728).
const PER_TERM: f64 = 14.181_647;
/// 640320³ / 24.
const C3_24: u64 = 10_939_058_860_032_000;
/// Limbs beyond the digits that are asked for: rounding of some dozen operations.
const GUARD: usize = 4;
/// The most decimals: what the transform can multiply.
const MOST: usize = 1 << 24;

/// Result of `pi`.
#[derive(Debug, Serialize)]
pub(super) struct Computed {
    seconds: f64,
    /// Of the digits, as 16 hexadecimal ones.
    digest: String,
}

pub(super) fn pi(digits: usize) -> Result<Computed> {
    if !(1..=MOST).contains(&digits) {
        bail!("peer: {digits} decimals: not within 1 to {MOST}");
    }
    let start = Instant::now();
    let text = decimals(digits);
    let seconds = start.elapsed().as_secs_f64();
    Ok(Computed {
        seconds,
        digest: format!("{:016x}", netloom_digest::fnv1a::hash(text.as_bytes())),
    })
}

/// `3` and this many decimals.
fn decimals(digits: usize) -> String {
    let limbs = digits.div_ceil(LIMB_DIGITS) + GUARD;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
    let terms = (digits as f64 / PER_TERM) as u64 + 2;
    let sums = split(1, terms, false);
    // π = 426880 √10005 Q / (13591409 Q + T).
    let mut below = sums.q.times(13_591_409);
    match sums.negative {
        true => below = below.minus(&sums.t),
        false => below = below.plus(&sums.t),
    }
    let root = Number::inverse_root(10_005, limbs).times(10_005);
    // Numbers below are fixed-point, `limbs` behind the point; the fraction Q / below is less than one.
    let fraction = Number::quotient(&sums.q, &below, limbs);
    let product = fraction.by(&root).without(limbs).times(426_880);
    let mut text = product.without(GUARD).text();
    text.truncate(digits + 1);
    text
}

/// The sums of a part of the series.
struct Sums {
    p: Number,
    q: Number,
    t: Number,
    /// The sign of `t`.
    negative: bool,
}

/// Terms `from` to `to`, the latter not included; the last one needs no `p` of the whole.
fn split(from: u64, to: u64, p_needed: bool) -> Sums {
    if to - from == 1 {
        let p = Number::from(6 * from - 5).times(2 * from - 1).times(6 * from - 1);
        let q = Number::from(C3_24).times(from).times(from).times(from);
        let t = p.by(&Number::from(13_591_409 + 545_140_134 * from));
        return Sums { p, q, t, negative: from % 2 == 1 };
    }
    let middle = from.midpoint(to);
    let left = split(from, middle, true);
    let right = split(middle, to, p_needed);
    let (over, under) = (left.t.by(&right.q), left.p.by(&right.t));
    let (t, negative) = match (left.negative == right.negative, over.is_less(&under)) {
        (true, _) => (over.plus(&under), left.negative),
        (false, false) => (over.minus(&under), left.negative),
        (false, true) => (under.minus(&over), right.negative),
    };
    let p = if p_needed { left.p.by(&right.p) } else { Number::from(0) };
    Sums { p, q: left.q.by(&right.q), t, negative }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decimals, and the digest of `3` and these by GNU MPFR 4.2 (`mpfr_const_pi`).
    const KNOWN: [(usize, &str); 3] =
        [(10, "df5ecb1542350367"), (1000, "84084d8fa08a7800"), (16_384, "016b4a454eb65605")];

    #[test]
    fn decimals_are_those_of_another_program() {
        assert_eq!(decimals(40), "31415926535897932384626433832795028841971");
        for (digits, digest) in KNOWN {
            let found = u64::from_str_radix(&pi(digits).unwrap().digest, 16).unwrap();
            assert_eq!(found, u64::from_str_radix(digest, 16).unwrap(), "{digits}");
        }
    }

    #[test]
    fn more_digits_begin_like_fewer() {
        let many = decimals(3000);
        for digits in [1, 2, 5, 6, 7, 359, 360, 361, 2000] {
            let few = decimals(digits);
            assert_eq!(few.len(), digits + 1);
            assert!(many.starts_with(&few), "{digits}");
        }
        assert!(pi(0).is_err() && pi(MOST + 1).is_err());
    }
}
