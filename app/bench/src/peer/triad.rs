//! `triad MEBIBYTES TURNS`: the fourth phase of STREAM (McCalpin), `a[i] = b[i] + s * c[i]`, over three arrays of this many MiB
//! each on one core; prints `{"mb_per_s", "wrong"}`.
//!
//! A turn counts the bytes of its reads and its write, as STREAM does; the first, in which pages are made, is not counted, and the
//! figure is that of the best turn. `wrong` are elements that do not hold what they should.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, bail};
use serde::Serialize;

/// The factor, and what the arrays hold.
const FACTOR: f64 = 3.0;
const B: f64 = 2.0;
const C: f64 = 0.5;
/// Limits of the arguments.
const MOST_MEBIBYTES: usize = 1 << 14;
const MOST_TURNS: u32 = 1000;

/// Result of `triad`.
#[derive(Debug, Serialize)]
pub(super) struct Streamed {
    mb_per_s: f64,
    wrong: usize,
}

pub(super) fn triad(mebibytes: usize, turns: u32) -> Result<Streamed> {
    if !(1..=MOST_MEBIBYTES).contains(&mebibytes) || !(2..=MOST_TURNS).contains(&turns) {
        bail!("peer: {mebibytes} MiB, {turns} turns: 1 to {MOST_MEBIBYTES}, and 2 to {MOST_TURNS}");
    }
    let count = (mebibytes << 20) / size_of::<f64>();
    let (mut a, b, c) = (vec![0.0; count], vec![B; count], vec![C; count]);
    let mut best = f64::INFINITY;
    for turn in 0..turns {
        let start = Instant::now();
        let (b, c) = (black_box(&b), black_box(&c));
        for ((own, b), c) in a.iter_mut().zip(b).zip(c) {
            *own = b + FACTOR * c;
        }
        black_box(&mut a);
        if turn > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    let expected = B + FACTOR * C;
    let wrong = a.iter().filter(|value| (**value - expected).abs() > 1e-12).count();
    #[expect(clippy::cast_precision_loss, reason = "a count of bytes below 2^53")]
    let bytes = (3 * count * size_of::<f64>()) as f64;
    Ok(Streamed { mb_per_s: bytes / best / 1e6, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_hold_the_sums() {
        let streamed = triad(1, 3).unwrap();
        assert!(streamed.wrong == 0 && streamed.mb_per_s > 1.0, "{streamed:?}");
        assert!(triad(0, 3).is_err() && triad(1, 1).is_err() && triad(1 << 15, 2).is_err());
    }
}
