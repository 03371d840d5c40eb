//! Sets of ports: `443`, `8000-8100`, or several of them.

use std::fmt;

/// A set of port numbers as disjoint, ascending ranges that do not touch; never empty.
///
/// Ports of virtual machine sockets have 32 bits, so these have, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports(Vec<(u32, u32)>);

impl Ports {
    /// The set of these inclusive ranges; `None` if there are none or one is reversed.
    pub fn of(ranges: impl IntoIterator<Item = (u32, u32)>) -> Option<Ports> {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        if ranges.is_empty() || ranges.iter().any(|(low, high)| low > high) {
            return None;
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = vec![];
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Some(Ports(merged))
    }

    /// One range as text: `443` or `8000-8100`.
    pub fn range(text: &str) -> Option<(u32, u32)> {
        let number = |text: &str| -> Option<u32> {
            text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
        };
        let (low, high) = match text.split_once('-') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => (number(text)?, number(text)?),
        };
        (low <= high).then_some((low, high))
    }

    /// Whether `port` is one of these.
    pub fn contains(&self, port: u32) -> bool {
        self.0.iter().any(|(low, high)| (*low..=*high).contains(&port))
    }

    /// Whether all of these are in `other`.
    pub fn within(&self, other: &Ports) -> bool {
        let holds = |(low, high): &(u32, u32)| other.0.iter().any(|(a, b)| a <= low && high <= b);
        self.0.iter().all(holds)
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (low, high)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if low == high {
                write!(f, "{comma}{low}")?;
            } else {
                write!(f, "{comma}{low}-{high}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let ports = Ports::of([(80, 80), (443, 443), (81, 90), (85, 100)]).unwrap();
        assert_eq!(ports.to_string(), "80-100,443");
        assert!(ports.contains(100) && ports.contains(443) && !ports.contains(101));
        assert_eq!(Ports::of([]), None);
        assert_eq!(Ports::of([(2, 1)]), None);
        assert_eq!(Ports::of([(0, u32::MAX), (7, 7)]).unwrap().ranges(), [(0, u32::MAX)]);
    }

    #[test]
    fn a_set_lies_within_another() {
        let set = |ranges: &[(u32, u32)]| Ports::of(ranges.iter().copied()).unwrap();
        assert!(set(&[(80, 80)]).within(&set(&[(1, 100)])));
        assert!(set(&[(1, 50), (51, 60)]).within(&set(&[(1, 60)])));
        assert!(!set(&[(1, 60)]).within(&set(&[(1, 50), (52, 60)])));
        assert!(!set(&[(80, 80), (443, 443)]).within(&set(&[(80, 80)])));
    }

    #[test]
    fn text_is_a_number_or_a_range() {
        assert_eq!(Ports::range("443"), Some((443, 443)));
        assert_eq!(Ports::range("1-9"), Some((1, 9)));
        for wrong in ["", "-", "9-1", "1-", "+1", " 1", "1-2-3", "http", "4294967296"] {
            assert_eq!(Ports::range(wrong), None, "{wrong}");
        }
    }
}
