//! Text to values with units. Each function gives `None` for text that is not such a value.
//!
//! | what     | accepted                                              | unit of the result |
//! |----------|-------------------------------------------------------|--------------------|
//! | duration | a number and `us`, `ms`, `s`, `m` or `h`; bare: seconds | [`Duration`]     |
//! | bytes    | a number and `k kB M MB G GB T TB` (powers of 1000) or `KiB MiB GiB TiB` (of 1024); bare: bytes | bytes |
//! | cpu      | `50%` (of one CPU) or a number of CPUs                | thousandths of a CPU |
//! | percent  | `0.1%`                                                | fraction, 0 to 1   |
//! | mode     | three or four octal digits                            | permission bits    |
//! | MAC      | six hex pairs with `:`                                | six bytes          |
//!
//! Numbers are decimal, may have a fraction, have no sign and no exponent.

use std::time::Duration;

/// The longest duration that is read: 1,000 days, far below where sums overflow.
const LONGEST_SECONDS: f64 = 86_400_000.0;

/// A number with its unit: `("256", "MiB")`.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let digits_around = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit());
    if !digits_around {
        return None;
    }
    Some((number.parse().ok()?, unit.trim_start()))
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
    let factor: f64 = match unit {
        "" | "B" => 1.0,
        "k" | "K" | "kB" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        "Ki" | "KiB" => 1024.0,
        "Mi" | "MiB" => 1_048_576.0,
        "Gi" | "GiB" => 1_073_741_824.0,
        "Ti" | "TiB" => 1_099_511_627_776.0,
        _ => return None,
    };
    whole(number * factor, 4e18)
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

/// `0.1%` is 0.001; 0 to 100 %.
pub fn percent(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    (unit == "%" && number <= 100.0).then_some(number / 100.0)
}

/// `644` or `0755`: permission bits in octal, with the set-id and sticky bits.
pub fn octal_mode(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
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
        assert_eq!(percent("0.1%"), Some(0.001));
        assert_eq!(percent("101%"), None);
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

    proptest! {
        #[test]
        fn no_text_makes_them_panic(text in "\\PC{0,12}") {
            let _ = (duration(&text), bytes(&text), cpu_milli(&text), percent(&text), octal_mode(&text), mac(&text));
        }

        #[test]
        fn whole_mebibytes_are_exact(n in 0_u64..1 << 30) {
            prop_assert_eq!(bytes(&format!("{n}MiB")), Some(n << 20));
        }
    }
}
