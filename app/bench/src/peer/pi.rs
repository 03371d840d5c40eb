//! `pi DIGITS`: computes this many decimals of π on one core; prints `{"seconds", "digest"}`.
//!
//! By Chudnovsky's series (1988) and binary splitting, in the numbers of dashu-int. The digest is FNV-1a of the digits
//! `3141…`, which the caller compares.

use std::time::Instant;

use anyhow::{Result, bail};
use dashu_int::ops::SquareRoot;
use dashu_int::{IBig, UBig};
use serde::Serialize;

/// Decimals of a term of the series: log10(640320³ / 1728).
const PER_TERM: f64 = 14.181_647;
/// 640320³ / 24.
const C3_24: u64 = 10_939_058_860_032_000;
/// Decimals beyond those that are asked for: rounding of the root and of the quotient.
const GUARD: usize = 10;
/// The most decimals: some minutes.
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
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
    let terms = (digits as f64 / PER_TERM) as u64 + 2;
    let sums = split(1, terms);
    // π = 426880 √10005 Q / (13591409 Q + T), with the root as an integer of as many decimals.
    let scale = UBig::from(10_u8).pow(digits + GUARD);
    let square: UBig = UBig::from(10_005_u32) * &scale * &scale;
    let below = IBig::from(13_591_409) * &sums.q + sums.t;
    let pi: IBig = IBig::from(426_880) * IBig::from(square.sqrt()) * sums.q / below;
    let mut text = pi.to_string();
    text.truncate(digits + 1);
    text
}

/// The sums of a part of the series.
struct Sums {
    p: IBig,
    q: IBig,
    t: IBig,
}

/// Terms `from` to `to`, the latter not included.
fn split(from: u64, to: u64) -> Sums {
    if to - from == 1 {
        let p = -(IBig::from(6 * from - 5) * (2 * from - 1) * (6 * from - 1));
        let q = IBig::from(C3_24) * from * from * from;
        let t = &p * (13_591_409 + 545_140_134 * from);
        return Sums { p, q, t };
    }
    let middle = from.midpoint(to);
    let (left, right) = (split(from, middle), split(middle, to));
    let t = left.t * &right.q + &left.p * right.t;
    Sums { p: left.p * right.p, q: left.q * right.q, t }
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
