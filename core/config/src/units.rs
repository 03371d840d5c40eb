//! Text to values with units. Each function returns `None` for text that is not such a value.
//!
//! | what     | accepted                                              | unit of the result |
//! |----------|-------------------------------------------------------|--------------------|
//! | duration | a number and `us`, `ms`, `s`, `m` or `h`; bare: seconds | [`Duration`]     |
//! | bytes    | a number and `k kB M MB G GB T TB` (powers of 1000) or `KiB MiB GiB TiB` (of 1024); bare: bytes | bytes |
//! | cpu      | `50%` (of one CPU) or a number of CPUs                | thousandths of a CPU |
//! | share    | `0.1%`, at most seven digits after the point          | parts of 10^9      |
//! | rate     | a number and `bit kbit mbit gbit tbit` or `b/s kb/s Mb/s Gb/s Tb/s` (powers of 1000) | bits per second |
//! | packets  | a number and `k M G`, with or without `/s`            | packets per second |
//! | bytes/s  | bytes, with or without `/s`                           | bytes per second   |
//! | mode     | three or four octal digits                            | permission bits    |
//! | MAC      | six hex pairs with `:`                                | six bytes          |
//!
//! Numbers are decimal and may have a fraction, but no sign and no exponent. Shares and rates
//! are exact: a number that would have to be rounded is refused.

use std::time::Duration;

/// The longest duration accepted: 1,000 days, far below where sums overflow.
const LONGEST_SECONDS: f64 = 86_400_000.0;

/// The highest rate accepted, in bits, bytes or packets per second: 1,000 T.
const HIGHEST_RATE: u64 = 1_000_000_000_000_000;

/// A number with its unit: `("256", "MiB")`.
fn split_text(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let digits_around = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit());
    digits_around.then(|| (number, unit.trim_start()))
}

/// The same with the number's value.
fn split(text: &str) -> Option<(f64, &str)> {
    let (number, unit) = split_text(text)?;
    Some((number.parse().ok()?, unit))
}

/// `number` times `factor` when that is a whole number of at most `largest`.
fn exact(number: &str, factor: u64, largest: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut total = whole.parse::<u128>().ok()?.checked_mul(u128::from(factor))?;
    // They say nothing, and might overflow the scale.
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        let digits: u128 = fraction.parse().ok()?;
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let parts = digits.checked_mul(u128::from(factor))?;
        // A rate that had to be rounded would not be what was asked for.
        if !parts.is_multiple_of(scale) {
            return None;
        }
        total = total.checked_add(parts / scale)?;
    }
    u64::try_from(total).ok().filter(|total| *total <= largest)
}

/// `10ms`, `30s`, `2m`, `1.5` (seconds); at most 1,000 days.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number * factor;
    if seconds > LONGEST_SECONDS {
        return None;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// `256MiB`, `1GB`, `64k`, `4096`; at most 2^62 bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = byte_unit(unit)? as f64;
    whole(number * factor, 4e18)
}

fn byte_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "" | "B" => 1,
        "k" | "K" | "kB" | "KB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        "Ti" | "TiB" => 1 << 40,
        _ => return None,
    })
}

/// `50%` is 500 thousandths of a CPU, `1.5` is 1500.
pub fn cpu_milli(text: &str) -> Option<u32> {
    let (number, unit) = split(text)?;
    let milli = match unit {
        "%" => number * 10.0,
        "" => number * 1000.0,
        _ => return None,
    };
    whole(milli, f64::from(u32::MAX)).and_then(|n| u32::try_from(n).ok())
}

/// `0.1%` is 1,000,000 parts of 10^9; 0 to 100 %.
pub fn share(text: &str) -> Option<u32> {
    let (number, unit) = split_text(text)?;
    let parts = (unit == "%").then(|| exact(number, 10_000_000, 1_000_000_000))??;
    u32::try_from(parts).ok()
}

/// `1gbit`, `1.5Mb/s`, `64kbit/s`: bits per second, at most 1,000 Tbit/s. The unit is required;
/// `B` (bytes) and `bps` (ambiguous between bytes and bits) are refused.
pub fn rate(text: &str) -> Option<u64> {
    let (number, unit) = split_text(text)?;
    // Exactly this `b`: a `B` would be bytes.
    let prefix = match unit.strip_suffix("b/s") {
        Some(prefix) => prefix.to_ascii_lowercase(),
        None => {
            let unit = unit.to_ascii_lowercase();
            unit.strip_suffix("/s").unwrap_or(&unit).strip_suffix("bit")?.to_owned()
        }
    };
    exact(number, thousands(&prefix)?, HIGHEST_RATE)
}

/// `200k/s`, `1.5M`, `5000`: packets per second, at most 10^15.
pub fn packet_rate(text: &str) -> Option<u64> {
    let (number, unit) = split_text(text)?;
    let unit = unit.strip_suffix("/s").unwrap_or(unit).trim_end();
    let factor = match unit {
        "k" | "K" | "M" | "G" | "" => thousands(&unit.to_ascii_lowercase())?,
        _ => return None,
    };
    exact(number, factor, HIGHEST_RATE)
}

/// `1GB/s`, `64KiB/s`, `1.5M`: bytes per second, at most 10^15.
pub fn byte_rate(text: &str) -> Option<u64> {
    let size = text.strip_suffix("/s").unwrap_or(text).trim_end();
    let (number, unit) = split_text(size)?;
    exact(number, byte_unit(unit)?, HIGHEST_RATE)
}

fn thousands(prefix: &str) -> Option<u64> {
    Some(match prefix {
        "" => 1,
        "k" => 1000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        _ => return None,
    })
}

/// `644` or `0755`: permission bits in octal, with the set-id and sticky bits.
pub fn octal_mode(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    // `from_str_radix` alone would take a sign.
    let octal = digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    if !octal || !(3..=4).contains(&digits.len()) {
        return None;
    }
    u32::from_str_radix(digits, 8).ok()
}

/// `02:00:00:00:00:01`.
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split(':');
    let mut address = [0; 6];
    for byte in &mut address {
        // Both digits: `1` alone may be a slip.
        let part =
            parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}

/// The nearest whole number, when it is at most `largest`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded right before")]
fn whole(number: f64, largest: f64) -> Option<u64> {
    let rounded = number.round();
    (0.0..=largest).contains(&rounded).then_some(rounded as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("10ms"), Some(Duration::from_millis(10)));
        assert_eq!(duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        assert_eq!(duration("1.5"), Some(Duration::from_millis(1500)));
        for bad in ["", "s", "-1s", "1 day", "1e9s", ".5s", "5.s", "1.2.3s", "99999999h", "inf"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("256MiB"), Some(256 << 20));
        assert_eq!(bytes("1GB"), Some(1_000_000_000));
        assert_eq!(bytes("64k"), Some(64_000));
        assert_eq!(bytes("1.5 KiB"), Some(1536));
        for bad in ["", "MiB", "1mib", "-1", "9999999999TiB", "1e3"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn shares_and_modes() {
        assert_eq!(cpu_milli("50%"), Some(500));
        assert_eq!(cpu_milli("1.5"), Some(1500));
        assert_eq!(cpu_milli("1 CPU"), None);
        assert_eq!(share("0.1%"), Some(1_000_000));
        assert_eq!(share("100%"), Some(1_000_000_000));
        assert_eq!(share("0.0000001%"), Some(1));
        assert_eq!(share("33.3000000000%"), Some(333_000_000));
        for bad in ["", "101%", "100.0000001%", "0.00000001%", "1", "-1%", ".5%", "1 percent"] {
            assert_eq!(share(bad), None, "{bad}");
        }
        assert_eq!(octal_mode("0755"), Some(0o755));
        assert_eq!(octal_mode("644"), Some(0o644));
        assert_eq!(octal_mode("888"), None);
        assert_eq!(octal_mode("75"), None);
        assert_eq!(octal_mode("+75"), None);
        assert_eq!(mac("02:00:00:00:0a:Ff"), Some([2, 0, 0, 0, 10, 255]));
        for bad in ["02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "+2:00:00:00:00:00"] {
            assert_eq!(mac(bad), None, "{bad}");
        }
    }

    #[test]
    fn rates() {
        for (text, bits) in [
            ("1gbit", 1_000_000_000),
            ("100mbit", 100_000_000),
            ("64kbit", 64_000),
            ("9600bit", 9600),
            ("1.5Gbit/s", 1_500_000_000),
            ("1Gb/s", 1_000_000_000),
            ("0.5 kb/s", 500),
        ] {
            assert_eq!(rate(text), Some(bits), "{text}");
        }
        for bad in ["", "1", "1GB/s", "1gbps", "1GiB/s", "1g", "-1kbit", "0.0005kbit", "1001tbit"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
        for (text, packets) in [("200k/s", 200_000), ("1.5M", 1_500_000), ("5000", 5000)] {
            assert_eq!(packet_rate(text), Some(packets), "{text}");
        }
        for bad in ["", "k/s", "1Ki", "1kB/s", "0.5", "1/m", "1m", "2000000000000000"] {
            assert_eq!(packet_rate(bad), None, "{bad}");
        }
        for (text, bytes) in [("1GB/s", 1_000_000_000), ("64KiB/s", 65_536), ("1.5M", 1_500_000)] {
            assert_eq!(byte_rate(text), Some(bytes), "{text}");
        }
        for bad in ["", "/s", "1gbit", "1Gb/s", "0.1B/s"] {
            assert_eq!(byte_rate(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn shares_are_exact(parts in 0_u32..=1_000_000_000) {
            let text = format!("{}.{:07}%", parts / 10_000_000, parts % 10_000_000);
            prop_assert_eq!(share(&text), Some(parts));
        }

        #[test]
        fn no_text_makes_them_panic(text in "\\PC{0,12}") {
            let _ = (duration(&text), bytes(&text), cpu_milli(&text), share(&text), octal_mode(&text), mac(&text));
            let _ = (rate(&text), packet_rate(&text), byte_rate(&text));
        }

        #[test]
        fn whole_mebibytes_are_exact(n in 0_u64..1 << 30) {
            prop_assert_eq!(bytes(&format!("{n}MiB")), Some(n << 20));
        }
    }
}
