//! Guesses what a value with an unsupported unit was meant to be: `10Mbps` is `10mbit`.
//!
//! Each function takes text that [`crate::units`] refused and returns advice such as `write 10mbit`, or
//! `None` without a guess. Every proposal is valid. Only errors call these, so reading costs nothing.

use crate::units;

/// A number, as text and as value, with its unit trimmed.
struct Quantity<'t> {
    number: &'t str,
    value: f64,
    unit: &'t str,
}

/// The quantity in a text that `parse` refuses.
fn refused<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Quantity<'_>> {
    if parse(text).is_some() { None } else { quantity(text) }
}

fn quantity(text: &str) -> Option<Quantity<'_>> {
    let text = text.trim();
    // No sign: quantities here are never negative.
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    // Longer words are not typing errors.
    let value = number.parse().ok().filter(|_| text.len() <= 32)?;
    Some(Quantity { number, value, unit: unit.trim() })
}

/// `write PROPOSAL`, if that is a valid value.
fn write<T>(proposal: &str, parse: impl Fn(&str) -> Option<T>) -> Option<String> {
    parse(proposal).map(|_| format!("write {proposal}"))
}

/// A number without the noise of its last binary digits.
fn tidy(number: f64) -> String {
    let text = format!("{number:.7}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// For [`units::duration`]: `10 sec`, `1m30s`, `2 days`.
pub fn duration(text: &str) -> Option<String> {
    let text = text.trim();
    let q = refused(text, units::duration)?;
    if let Some(seconds) = compound(text) {
        return write(&format!("{seconds}s"), units::duration);
    }
    let unit = match q.unit.to_lowercase().as_str() {
        "d" | "day" | "days" => {
            return write(&format!("{}h", tidy(q.value * 24.0)), units::duration);
        }
        "us" | "µs" | "μs" | "usec" | "usecs" | "microsecond" | "microseconds" => "us",
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        _ => return None,
    };
    write(&format!("{}{unit}", q.number), units::duration)
}

/// The whole seconds of `1m30s` or `1h5m`.
fn compound(text: &str) -> Option<u64> {
    let (mut rest, mut total, mut parts) = (text, 0_u64, 0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..end].parse().ok()?;
        let length = rest[end..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - end);
        let factor = match &rest[end..end + length] {
            "h" => 3600,
            "m" => 60,
            "s" => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        (rest, parts) = (&rest[end + length..], parts + 1);
    }
    (parts > 1).then_some(total)
}

/// The same where a unit is required: `20` is probably `20ms`.
pub fn delay(text: &str) -> Option<String> {
    match quantity(text) {
        // A fraction may have been meant in seconds.
        Some(q) if q.unit.is_empty() && q.number.contains('.') => {
            write(&format!("{}ms", q.number), units::duration)?;
            Some(format!("write {0}ms or {0}s", q.number))
        }
        Some(q) if q.unit.is_empty() => write(&format!("{}ms", q.number), units::duration),
        _ => duration(text),
    }
}

/// For [`units::share`]: `5` is `5%`.
pub fn share(text: &str) -> Option<String> {
    let q = refused(text, units::share)?;
    let proposal = format!("{}%", q.number);
    match q.unit.to_lowercase().as_str() {
        // Some mean a fraction, others a percentage.
        "" if q.value > 0.0 && q.value < 1.0 => {
            let fraction = format!("{}%", tidy(q.value * 100.0));
            units::share(&proposal).and(units::share(&fraction))?;
            Some(format!("write {proposal}, or {fraction} if {} is a fraction of 1", q.number))
        }
        "" | "percent" | "pct" | "per cent" => write(&proposal, units::share),
        _ => None,
    }
}

/// For [`units::cpu_milli`]: `500m` is `50%`, `2 cores` is `2`.
pub fn cpu(text: &str) -> Option<String> {
    let q = refused(text, units::cpu_milli)?;
    let proposal = match q.unit.to_lowercase().as_str() {
        "m" => format!("{}%", tidy(q.value / 10.0)),
        "c" | "cpu" | "cpus" | "core" | "cores" | "vcpu" | "vcpus" => q.number.to_owned(),
        "percent" | "pct" | "per cent" => format!("{}%", q.number),
        _ => return None,
    };
    write(&proposal, units::cpu_milli)
}

/// For [`units::bytes`]: `512mb` is `512MB`. A single lower-case letter means powers of 1024, as in Docker:
/// `512m` is `512MiB`.
pub fn bytes(text: &str) -> Option<String> {
    let q = refused(text, units::bytes)?;
    write(&format!("{}{}", q.number, byte_unit(q.unit)?), units::bytes)
}

fn byte_unit(unit: &str) -> Option<&'static str> {
    Some(match unit.to_lowercase().as_str() {
        "b" | "byte" | "bytes" => "B",
        "kb" | "kbyte" | "kbytes" | "kilobytes" => "kB",
        "mb" | "mbyte" | "mbytes" | "megabytes" => "MB",
        "gb" | "gbyte" | "gbytes" | "gigabytes" => "GB",
        "tb" | "tbyte" | "tbytes" | "terabytes" => "TB",
        "k" | "ki" | "kib" | "kibibytes" => "KiB",
        "m" | "mi" | "mib" | "mebibytes" => "MiB",
        "g" | "gi" | "gib" | "gibibytes" => "GiB",
        "t" | "ti" | "tib" | "tebibytes" => "TiB",
        _ => return None,
    })
}

/// For [`units::rate`]: `10Mbps` is `10mbit`, `10MB/s` is `80mbit`.
pub fn rate(text: &str) -> Option<String> {
    let q = refused(text, units::rate)?;
    if q.unit.is_empty() {
        // With no unit does 0 become a rate.
        units::rate(&format!("{}mbit", q.number)).filter(|_| q.value > 0.0)?;
        return Some(format!("write {0}mbit, {0}kbit or {0}bit", q.number));
    }
    let (prefix, in_bytes) = per_second(q.unit)?;
    match in_bytes {
        true => write(&format!("{}{prefix}bit", tidy(q.value * 8.0)), units::rate),
        false => write(&format!("{}{prefix}bit", q.number), units::rate),
    }
}

/// For [`units::byte_rate`]: `1GBps` is `1GB/s`, `1Gbps` is `125MB/s`.
pub fn byte_rate(text: &str) -> Option<String> {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let q = refused(text, units::byte_rate)?;
    let (prefix, in_bytes) = per_second(q.unit)?;
    let mut at = PREFIXES.iter().position(|p| p.eq_ignore_ascii_case(&prefix))?;
    if in_bytes {
        return write(&format!("{}{}B/s", q.number, PREFIXES[at]), units::byte_rate);
    }
    let mut value = q.value / 8.0;
    if value < 1.0 && at > 0 {
        (value, at) = (value * 1000.0, at - 1);
    }
    write(&format!("{}{}B/s", tidy(value), PREFIXES[at]), units::byte_rate)
}

/// The prefix of a unit of bits or bytes a second, in lower case, and whether it counts bytes. Lower-case
/// `b` is a bit, upper-case `B` a byte; all-upper-case `MBPS` is ambiguous and counts as the usual bit.
fn per_second(unit: &str) -> Option<(String, bool)> {
    let prefixed = unit.starts_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    let (prefix, name) = unit.split_at(usize::from(prefixed));
    let in_bytes = match name {
        "Bps" | "B/s" | "B" | "Byte/s" | "Bytes/s" | "bytes/s" | "byte/s" | "iB/s" | "iB" => true,
        _ => {
            let bits = ["", "b", "bps", "b/s", "bit", "bits", "bitps", "bit/s", "bits/s"];
            let more = ["b/sec", "bit/sec", "bits/sec", "bps/s"];
            let name = name.to_lowercase();
            bits.iter().chain(&more).find(|known| **known == name)?;
            false
        }
    };
    Some((prefix.to_lowercase(), in_bytes))
}

/// For [`units::packet_rate`]: `100kpps` is `100k/s`.
pub fn packet_rate(text: &str) -> Option<String> {
    let q = refused(text, units::packet_rate)?;
    let unit = q.unit.to_lowercase();
    let plain = ["packets/s", "packets/sec", "pkts/s", "pps", "p/s", "/sec", "/s", "packets"];
    let prefix = plain.iter().find_map(|suffix| unit.strip_suffix(suffix)).unwrap_or(&unit).trim();
    let prefix = match prefix {
        "" | "k" => prefix.to_owned(),
        "m" | "g" => prefix.to_uppercase(),
        _ => return None,
    };
    write(&format!("{}{prefix}/s", q.number), units::packet_rate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every guess is for a refused text; `""` means no guess.
    fn check<T>(
        parse: fn(&str) -> Option<T>,
        likely: fn(&str) -> Option<String>,
        pairs: &[(&str, &str)],
    ) {
        for (text, wanted) in pairs {
            assert!(parse(text).is_none(), "{text} is taken");
            let found = likely(text).unwrap_or_default();
            assert_eq!(found.strip_prefix("write ").unwrap_or_default(), *wanted, "{text}");
        }
    }

    #[test]
    fn times() {
        let pairs = [
            ("10 sec", "10s"),
            ("100msec", "100ms"),
            ("50µs", "50us"),
            ("5MS", "5ms"),
            ("2 minutes", "2m"),
            ("1.5 days", "36h"),
            ("1m30s", "90s"),
            ("1h5m", "3900s"),
            ("1m30", ""),
            ("-5s", ""),
            ("soon", ""),
            ("5 parsecs", ""),
        ];
        check(units::duration, duration, &pairs);
        assert_eq!(delay("20").as_deref(), Some("write 20ms"));
        assert_eq!(delay("0.5").as_deref(), Some("write 0.5ms or 0.5s"));
        assert_eq!(delay("20 msec").as_deref(), Some("write 20ms"));
        assert_eq!(delay("fast"), None);
    }

    #[test]
    fn shares() {
        let pairs = [
            ("5", "5%"),
            ("5 percent", "5%"),
            ("0.05", "0.05%, or 5% if 0.05 is a fraction of 1"),
            ("0.29", "0.29%, or 29% if 0.29 is a fraction of 1"),
            ("101", ""),
            ("-1%", ""),
            ("lots", ""),
        ];
        check(units::share, share, &pairs);
        let pairs = [("500m", "50%"), ("2 cores", "2"), ("50 percent", "50%"), ("half", "")];
        check(units::cpu_milli, cpu, &pairs);
    }

    #[test]
    fn sizes() {
        let pairs = [
            ("512mb", "512MB"),
            ("512m", "512MiB"),
            ("1g", "1GiB"),
            ("1gib", "1GiB"),
            ("64Kb", "64kB"),
            ("2 gigabytes", "2GB"),
            ("99999999999tb", ""),
            ("lots", ""),
        ];
        check(units::bytes, bytes, &pairs);
    }

    #[test]
    fn rates() {
        let pairs = [
            ("10Mbps", "10mbit"),
            ("1gbps", "1gbit"),
            ("10M", "10mbit"),
            ("100 Mbits/sec", "100mbit"),
            ("10MB/s", "80mbit"),
            ("1GBps", "8gbit"),
            ("100MBPS", "100mbit"),
            ("100", "100mbit, 100kbit or 100bit"),
            ("0", ""),
            ("5000tbps", ""),
            ("1kpps", ""),
            ("full", ""),
        ];
        check(units::rate, rate, &pairs);
        let pairs =
            [("1GBps", "1GB/s"), ("10mbit", "1.25MB/s"), ("1Gb/s", "125MB/s"), ("lots", "")];
        check(units::byte_rate, byte_rate, &pairs);
        let pairs = [
            ("100kpps", "100k/s"),
            ("1m", "1M/s"),
            ("2 Mpps", "2M/s"),
            ("50pps", "50/s"),
            ("1kB/s", ""),
        ];
        check(units::packet_rate, packet_rate, &pairs);
    }

    proptest! {
        #[test]
        fn no_text_makes_them_panic_and_what_they_propose_is_taken(text in "[0-9.]{0,5} ?\\PC{0,9}") {
            let first = |help: Option<String>| {
                help.map(|h| h.split([' ', ',']).nth(1).unwrap_or_default().to_owned())
            };
            for (help, taken) in [
                (duration(&text), units::duration as fn(&str) -> _),
                (delay(&text), units::duration),
            ] {
                if let Some(value) = first(help) { prop_assert!(taken(&value).is_some(), "{value}") }
            }
            for (help, taken) in [
                (bytes(&text), units::bytes as fn(&str) -> Option<u64>),
                (rate(&text), units::rate),
                (byte_rate(&text), units::byte_rate),
                (packet_rate(&text), units::packet_rate),
            ] {
                if let Some(value) = first(help) { prop_assert!(taken(&value).is_some(), "{value}") }
            }
            for (help, taken) in
                [(share(&text), units::share as fn(&str) -> Option<u32>), (cpu(&text), units::cpu_milli)]
            {
                if let Some(value) = first(help) { prop_assert!(taken(&value).is_some(), "{value}") }
            }
        }
    }
}
