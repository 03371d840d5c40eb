//! Sets of ports: `443`, `8000-8100`, `free`, or several of them.
//!
//! `free` is a port that the kernel chooses, whichever it is. So it lies within a set that has all ports, and
//! nothing but itself lies within it. A port that was chosen already is also found by its number: who forbids a range
//! forbids it also to those who happen to get a port of it.

use std::fmt;

use crate::request::Port;

/// A set of ports, never empty: disjoint, ascending ranges that do not touch, and perhaps a free one.
///
/// Ports of virtual machine sockets have 32 bits, so these have, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    ranges: Vec<(u32, u32)>,
    free: bool,
}

/// A part of a set, as files write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All ports from the first to the second.
    Range(u32, u32),
    /// A port that the kernel chooses.
    Free,
}

/// All ports that the kernel may choose from for a socket of IP.
const EVERY: (u32, u32) = (1, 65535);

impl Part {
    /// One part as text: `443`, `8000-8100` or `free`.
    pub fn parse(text: &str) -> Option<Part> {
        if text == "free" {
            return Some(Part::Free);
        }
        let number = |text: &str| -> Option<u32> {
            text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
        };
        let (low, high) = match text.split_once('-') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => (number(text)?, number(text)?),
        };
        (low <= high).then_some(Part::Range(low, high))
    }

    /// What a rule must name for this port and no other one; `None` without a port.
    pub fn of(port: Port) -> Option<Part> {
        match port {
            Port::None => None,
            Port::Named(port) => Some(Part::Range(port, port)),
            Port::Free(_) => Some(Part::Free),
        }
    }
}

impl Ports {
    /// The set of these parts; `None` if there are none or a range is reversed.
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Option<Ports> {
        let (mut ranges, mut free) = (vec![], false);
        for part in parts {
            match part {
                Part::Range(low, high) if low > high => return None,
                Part::Range(low, high) => ranges.push((low, high)),
                Part::Free => free = true,
            }
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = vec![];
        for (low, high) in ranges {
            match merged.last_mut() {
                // Ranges that touch become one, so that equal sets are equal values.
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        (free || !merged.is_empty()).then_some(Ports { ranges: merged, free })
    }

    /// Whether `port` is one of these.
    pub fn contains(&self, port: Port) -> bool {
        match port {
            Port::None => false,
            Port::Named(port) => self.has(port),
            Port::Free(port) => self.holds_free() || self.has(port),
        }
    }

    /// Whether all of these are in `other`.
    pub fn within(&self, other: &Ports) -> bool {
        (!self.free || other.holds_free())
            && self.ranges.iter().all(|(low, high)| other.holds(*low, *high))
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Whether a free port is named.
    pub fn has_free(&self) -> bool {
        self.free
    }

    fn has(&self, port: u32) -> bool {
        self.holds(port, port)
    }

    fn holds(&self, low: u32, high: u32) -> bool {
        // Only the last range that begins at `low` or before can have it.
        let begun = self.ranges.partition_point(|(first, _)| *first <= low);
        begun.checked_sub(1).is_some_and(|last| high <= self.ranges[last].1)
    }

    /// Whether each free port is one of these, whichever the kernel chooses.
    fn holds_free(&self) -> bool {
        self.free || self.holds(EVERY.0, EVERY.1)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.ranges.iter().map(|(low, high)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        });
        let free = self.free.then(|| "free".to_owned());
        f.write_str(&ranges.chain(free).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Ports {
        Ports::of(text.split(',').map(|part| Part::parse(part).unwrap())).unwrap()
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let ports = set("80,443,81-90,85-100");
        assert_eq!(ports.to_string(), "80-100,443");
        let named = |port| ports.contains(Port::Named(port));
        assert!(named(100) && named(443) && !named(101) && !ports.contains(Port::None));
        assert_eq!(Ports::of([]), None);
        assert_eq!(Ports::of([Part::Range(2, 1)]), None);
        assert_eq!(set("0-4294967295,7").ranges(), [(0, u32::MAX)]);
    }

    #[test]
    fn a_set_lies_within_another() {
        for (narrow, wide) in [
            ("80", "1-100"),
            ("1-50,51-60", "1-60"),
            ("free", "1-65535"),
            ("free", "0-65535"),
            ("free", "80,free"),
            ("free,80", "1-70000"),
        ] {
            assert!(set(narrow).within(&set(wide)), "{narrow} in {wide}");
        }
        for (one, other) in [
            ("1-60", "1-50,52-60"),
            ("80,443", "80"),
            ("free", "1-65534"),
            ("free", "32768-60999"),
            ("1-65535", "free"),
            ("80", "free"),
        ] {
            assert!(!set(one).within(&set(other)), "{one} not in {other}");
        }
    }

    #[test]
    fn a_free_port_is_no_named_one_and_found_by_its_number() {
        let free = set("free");
        assert!(free.contains(Port::Free(0)) && free.contains(Port::Free(4000)));
        assert!(!free.contains(Port::Named(4000)) && !free.contains(Port::Named(0)));
        assert!(set("1-65535").contains(Port::Free(0)));
        assert!(set("4000").contains(Port::Free(4000)) && !set("4000").contains(Port::Free(0)));
        assert!(!set("32768-60999").contains(Port::Free(0)));
    }

    #[test]
    fn text_is_a_number_a_range_or_free() {
        for text in ["443", "1-9", "free", "80,443,free"] {
            assert_eq!(set(text).to_string(), text);
        }
        for wrong in ["", "-", "9-1", "1-", "+1", " 1", "1-2-3", "http", "4294967296", "Free"] {
            assert_eq!(Part::parse(wrong), None, "{wrong}");
        }
    }
}
