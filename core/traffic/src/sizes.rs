//! Sizes of frames: one, the Internet mix, or all of a range.
//!
//! They include the frame check sequence, as in RFC 2544: size 64 gives an interface 60 bytes. The size of
//! the n-th frame is fixed, so that two ends agree and a test can be repeated.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Bytes of the frame check sequence, which the interface adds.
pub const FCS: u32 = 4;
/// The smallest Ethernet frame (IEEE 802.3).
pub const LEAST_SIZE: u32 = 64;
/// The largest frame: Ethernet header, the longest IPv4 packet, frame check sequence.
pub const MOST_SIZE: u32 = 14 + 65_535 + FCS;

/// Three sizes, seven, four and one time, interleaved to avoid bursts of one size.
const IMIX: [u32; 12] = [64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 570, 64];

/// The sizes of frames, in bytes with the frame check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(u32),
    /// The simple Internet mix: 64, 570 and 1518 bytes as 7 : 4 : 1.
    Imix,
    /// From the first to the second, each once, then repeated.
    Range(u32, u32),
}

impl Sizes {
    /// Checks that all are valid frame sizes.
    ///
    /// # Errors
    /// [`Error::Range`] outside [`LEAST_SIZE`] to [`MOST_SIZE`], or for a range that ends before it begins.
    pub fn check(self) -> Result<Sizes> {
        for size in [self.least(), self.most()] {
            if !(LEAST_SIZE..=MOST_SIZE).contains(&size) {
                return Err(Error::range("frame size", size, LEAST_SIZE, MOST_SIZE));
            }
        }
        match self {
            Sizes::Range(from, to) if from > to => {
                Err(Error::range("end of a range of frame sizes", to, from, MOST_SIZE))
            }
            fine => Ok(fine),
        }
    }

    /// The size of the n-th frame.
    pub fn at(self, n: u64) -> u32 {
        let place = u32::try_from(n % u64::from(self.cycle())).unwrap_or(0);
        match self {
            Sizes::Fixed(size) => size,
            Sizes::Imix => IMIX[place as usize % IMIX.len()],
            Sizes::Range(from, _) => from + place,
        }
    }

    /// The number of frames after which sizes repeat.
    pub fn cycle(self) -> u32 {
        match self {
            Sizes::Fixed(_) => 1,
            Sizes::Imix => 12,
            Sizes::Range(from, to) => to.saturating_sub(from).saturating_add(1),
        }
    }

    /// The smallest.
    pub fn least(self) -> u32 {
        match self {
            Sizes::Fixed(size) | Sizes::Range(size, _) => size,
            Sizes::Imix => 64,
        }
    }

    /// The largest.
    pub fn most(self) -> u32 {
        match self {
            Sizes::Fixed(size) | Sizes::Range(_, size) => size,
            Sizes::Imix => 1518,
        }
    }
}

impl FromStr for Sizes {
    type Err = Error;

    /// `64`, `imix` or `64-1518`.
    fn from_str(text: &str) -> Result<Sizes> {
        let wrong = || {
            Error::text("frame size", text, "write a number like 64, a range like 64-1518, or imix")
        };
        let number = |part: &str| part.trim().parse::<u32>().map_err(|_| wrong());
        let sizes = match text.trim() {
            "imix" => Sizes::Imix,
            other => match other.split_once('-') {
                Some((from, to)) => Sizes::Range(number(from)?, number(to)?),
                None => Sizes::Fixed(number(other)?),
            },
        };
        sizes.check()
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Imix => f.write_str("imix"),
            Sizes::Range(from, to) => write!(f, "{from}-{to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_back() {
        for (text, sizes) in [
            ("64", Sizes::Fixed(64)),
            ("imix", Sizes::Imix),
            ("64-1518", Sizes::Range(64, 1518)),
            ("9018", Sizes::Fixed(9018)),
        ] {
            assert_eq!(text.parse::<Sizes>().unwrap(), sizes);
            assert_eq!(sizes.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_size_is_named() {
        for (text, says) in [
            ("60", "frame size 60: must be 64 to 65553"),
            ("65554", "frame size 65554: must be 64 to 65553"),
            ("100-80", "end of a range of frame sizes 80: must be 100 to 65553"),
            ("big", "frame size \"big\": write a number like 64, a range like 64-1518, or imix"),
            ("", "frame size \"\": write a number like 64, a range like 64-1518, or imix"),
        ] {
            assert_eq!(text.parse::<Sizes>().unwrap_err().to_string(), says);
        }
    }

    #[test]
    fn the_mix_is_seven_four_and_one() {
        let count = |size| (0..12).filter(|n| Sizes::Imix.at(*n) == size).count();
        assert_eq!([64, 570, 1518].map(count), [7, 4, 1]);
        assert_eq!(Sizes::Imix.at(6), Sizes::Imix.at(6 + 12_000_000));
    }

    #[test]
    fn a_range_has_each_once() {
        let all: Vec<u32> = (0..5).map(|n| Sizes::Range(64, 67).at(n)).collect();
        assert_eq!(all, [64, 65, 66, 67, 64]);
    }
}
