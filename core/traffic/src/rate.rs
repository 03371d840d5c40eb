//! How fast frames are sent: as fast as possible, or a number of packets or bits a second.
//!
//! Bits are those of the frame with its check sequence (8 times its size); Ethernet's overhead between
//! frames, 20 bytes, does not count. Rates are kept in thousandths a second, so that schedules are exact.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// The lowest rate, a second.
const LEAST: f64 = 0.001;
/// The highest.
const MOST: f64 = 1e15;

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as possible.
    Max,
    /// Packets a second.
    Packets(f64),
    /// Bits a second, of frames with their check sequence.
    Bits(f64),
}

impl Rate {
    /// Thousandths of packets or bits a second; `None` for [`Rate::Max`]. Values out of range are
    /// clamped.
    pub(crate) fn thousandths(self) -> Option<u64> {
        let (Rate::Packets(rate) | Rate::Bits(rate)) = self else { return None };
        // NaN would pass any clamp.
        let rate = if rate.is_nan() { LEAST } else { rate.clamp(LEAST, MOST) };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "1 to 10^18 after clamping"
        )]
        let thousandths = (rate * 1000.0).round() as u64;
        Some(thousandths.max(1))
    }

    /// Checks that it is a valid rate.
    ///
    /// # Errors
    /// [`Error::Range`] below a thousandth or above 10^15 a second, or not a number.
    pub fn check(self) -> Result<Rate> {
        match self {
            Rate::Packets(rate) | Rate::Bits(rate) if !(LEAST..=MOST).contains(&rate) => {
                Err(Error::range("rate a second", rate, LEAST, MOST))
            }
            fine => Ok(fine),
        }
    }
}

impl FromStr for Rate {
    type Err = Error;

    /// `max`, `100kpps`, `1.5Mpps`, `2Gb/s`, `10mbit`.
    fn from_str(text: &str) -> Result<Rate> {
        let wrong = || Error::text("rate", text, instead(text.trim()));
        let trimmed = text.trim();
        if trimmed == "max" {
            return Ok(Rate::Max);
        }
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = trimmed.split_at(end);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim_start();
        // Bytes and bits differ only in the case of the `b`, so that case counts.
        let bits = unit.strip_suffix("b/s").or_else(|| {
            let unit = unit.strip_suffix("/s").unwrap_or(unit);
            unit.strip_suffix("bit")
        });
        let rate = match (unit.strip_suffix("pps"), bits) {
            (Some(prefix), _) => Rate::Packets(number * thousands(prefix).ok_or_else(wrong)?),
            (_, Some(prefix)) => Rate::Bits(number * thousands(prefix).ok_or_else(wrong)?),
            _ => return Err(wrong()),
        };
        rate.check()
    }
}

/// Advice for a text that is not a rate.
fn instead(text: &str) -> String {
    let bare = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let likely = match bare {
        true => Some(format!("write {text}pps or {text}mbit")),
        false => netloom_config::likely::rate(text),
    };
    likely
        .unwrap_or_else(|| "write max, or a rate like 100kpps, 1.5Mpps, 10Mb/s or 2Gbit".to_owned())
}

fn thousands(prefix: &str) -> Option<f64> {
    Some(match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        _ => return None,
    })
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, unit) = match self {
            Rate::Max => return f.write_str("max"),
            Rate::Packets(rate) => (rate, "pps"),
            Rate::Bits(rate) => (rate, "b/s"),
        };
        let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
        let (step, prefix) = steps.into_iter().find(|(s, _)| rate >= s).unwrap_or((1.0, ""));
        write!(f, "{}{prefix}{unit}", rate / step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_back() {
        for (text, rate, shown) in [
            ("max", Rate::Max, "max"),
            ("1.5Mpps", Rate::Packets(1.5e6), "1.5Mpps"),
            ("100kpps", Rate::Packets(1e5), "100kpps"),
            ("0.5 pps", Rate::Packets(0.5), "0.5pps"),
            ("2Gb/s", Rate::Bits(2e9), "2Gb/s"),
            ("10mbit", Rate::Bits(1e7), "10Mb/s"),
            ("64kbit/s", Rate::Bits(64e3), "64kb/s"),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap(), rate, "{text}");
            assert_eq!(rate.to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_rate_is_named() {
        for text in ["", "fast", "5", "5B/s", "2GB/s", "1.2.3pps", "5xpps", "-1pps", "10bps"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("rate {text:?}: write ")), "{error}");
        }
        let instead = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(instead("10Mbps"), "rate \"10Mbps\": write 10mbit");
        assert_eq!(instead("5"), "rate \"5\": write 5pps or 5mbit");
        for text in ["0pps", "9999999Gpps"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.starts_with("rate a second ") && error.contains("must be"), "{error}");
        }
        assert!(Rate::Packets(f64::NAN).check().is_err());
    }
}
