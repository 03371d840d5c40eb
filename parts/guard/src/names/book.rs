//! Which names led to an address, for as long as the answers that said so hold.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a name holds at least: programs keep addresses beyond what the answer says.
const FLOOR: Duration = Duration::from_secs(600);
/// How long it holds at most, whatever the answer says.
const CEILING: Duration = Duration::from_secs(86_400);
/// Most addresses that are known. Beyond, the one that ends first is forgotten.
const MOST_ADDRESSES: usize = 4096;
/// Most names of one address. Beyond, the one that was asked for longest ago is forgotten.
const MOST_NAMES: usize = 16;

/// Names by address.
#[derive(Debug, Default)]
pub(super) struct Book(HashMap<IpAddr, Vec<Known>>);

/// A name, and until when it holds.
#[derive(Debug)]
struct Known {
    name: String,
    until: Instant,
}

impl Book {
    /// Notes an answer: addresses of a name, each with the seconds for which it holds.
    pub(super) fn add(&mut self, name: &str, addresses: &[(IpAddr, u32)], now: Instant) {
        for (address, seconds) in addresses {
            let address = address.to_canonical();
            if !self.0.contains_key(&address) {
                self.make_room(now);
            }
            let span = Duration::from_secs(u64::from(*seconds)).clamp(FLOOR, CEILING);
            let known = self.0.entry(address).or_default();
            // The name that was asked for last stands first.
            known.retain(|known| known.name != name && known.until > now);
            known.insert(0, Known { name: name.to_owned(), until: now + span });
            known.truncate(MOST_NAMES);
        }
    }

    /// Names of an address, the one that was asked for last first.
    pub(super) fn of(&self, address: IpAddr, now: Instant) -> Vec<String> {
        let known = self.0.get(&address.to_canonical()).map_or(&[][..], Vec::as_slice);
        known.iter().filter(|known| known.until > now).map(|known| known.name.clone()).collect()
    }

    fn make_room(&mut self, now: Instant) {
        if self.0.len() < MOST_ADDRESSES {
            return;
        }
        self.0.retain(|_, known| known.iter().any(|known| known.until > now));
        if self.0.len() >= MOST_ADDRESSES {
            let last = |known: &Vec<Known>| known.iter().map(|known| known.until).max();
            let first = self.0.iter().min_by_key(|(_, known)| last(known));
            if let Some(address) = first.map(|(address, _)| *address) {
                self.0.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_name_asked_for_last_comes_first() {
        let (mut book, now) = (Book::default(), Instant::now());
        let there = address("10.0.0.1");
        for name in ["a.example", "b.example", "a.example"] {
            book.add(name, &[(there, 60)], now);
        }
        assert_eq!(book.of(there, now), ["a.example", "b.example"]);
        assert_eq!(book.of(address("::ffff:10.0.0.1"), now), ["a.example", "b.example"]);
        assert!(book.of(address("10.0.0.2"), now).is_empty());
    }

    #[test]
    fn a_name_ends_with_its_answer_but_not_at_once() {
        let (mut book, now) = (Book::default(), Instant::now());
        let [short, long, endless] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(address);
        book.add("a", &[(short, 0), (long, 7200), (endless, u32::MAX)], now);
        let left = |after| [short, long, endless].map(|at| book.of(at, now + after).len());
        assert_eq!(left(Duration::from_secs(599)), [1, 1, 1]);
        assert_eq!(left(Duration::from_secs(601)), [0, 1, 1]);
        assert_eq!(left(Duration::from_secs(7201)), [0, 0, 1]);
        assert_eq!(left(CEILING), [0, 0, 0]);
    }

    #[test]
    fn memory_is_bounded() {
        let (mut book, now) = (Book::default(), Instant::now());
        for number in 0..10_000_u32 {
            let seconds = if number == 0 { 80_000 } else { 1000 + number };
            book.add("a", &[(std::net::Ipv4Addr::from(number).into(), seconds)], now);
            book.add(&format!("n{number}"), &[(address("fd00::1"), 85_000)], now);
        }
        assert_eq!(book.0.len(), MOST_ADDRESSES);
        assert_eq!(book.of(address("fd00::1"), now).len(), MOST_NAMES);
        assert_eq!(book.of(address("0.0.0.0"), now), ["a"], "it holds longest");
        assert!(book.of(address("0.0.0.1"), now).is_empty());
    }
}
