//! Which names led to an address, for as long as the answers that said so hold.
//!
//! Of an address that many names lead to, those that no rule says are forgotten first, and then those that say the same
//! words twice: so what rules say about an address stays whole, whatever else a program looks up.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::judge::Judge;

/// How long a name holds at least: programs keep addresses beyond what the answer says.
const FLOOR: Duration = Duration::from_secs(600);
/// How long it holds at most, whatever the answer says.
const CEILING: Duration = Duration::from_secs(86_400);
/// Most addresses that are known without a name that a rule says. Beyond, those that end first are forgotten.
const MOST_ADDRESSES: usize = 4096;
/// New addresses between two sweeps.
const BATCH: usize = 1024;
/// Most addresses that are known; more are not noted, until some do not count any more.
const MOST: usize = 1 << 16;
/// Least time between two sweeps once there are [`MOST`].
const LOOK: Duration = Duration::from_secs(1);
/// Most names of one address that no rule says. Beyond, the one that was asked for longest ago is forgotten.
pub(super) const MOST_NAMES: usize = 16;
/// Most programs of which it is known that they asked for a name.
const MOST_ASKERS: usize = 8;

/// Names by address.
#[derive(Debug, Default)]
pub(super) struct Book {
    all: HashMap<IpAddr, Vec<Known>>,
    /// When addresses were last swept, and how many were left.
    looked: Option<(Instant, usize)>,
}

/// A name, until when it holds, and the programs that asked for it, the last one first.
#[derive(Debug)]
struct Known {
    name: String,
    until: Instant,
    askers: Vec<Arc<str>>,
}

impl Known {
    /// Whether it counts: what a rule denies, or asks about, stays so.
    fn counts(&self, now: Instant, judge: &dyn Judge) -> bool {
        self.until > now || judge.said(&self.name).is_some_and(|said| said.kept)
    }
}

impl Book {
    /// Notes an answer to a program: addresses of a name, each with the seconds for which it holds.
    pub(super) fn add(
        &mut self,
        name: &str,
        program: &str,
        addresses: &[(IpAddr, u32)],
        now: Instant,
        judge: &dyn Judge,
    ) {
        for (address, seconds) in addresses {
            let address = address.to_canonical();
            if !self.all.contains_key(&address) && !self.has_room(now, judge) {
                return;
            }
            let span = Duration::from_secs(u64::from(*seconds)).clamp(FLOOR, CEILING);
            let known = self.all.entry(address).or_default();
            let old = known.iter().position(|known| known.name == name);
            let mut askers = old.map_or(vec![], |at| known.remove(at).askers);
            askers.retain(|asker| &**asker != program);
            askers.insert(0, program.into());
            askers.truncate(MOST_ASKERS);
            known.retain(|known| known.counts(now, judge));
            // The name that was asked for last stands first.
            known.insert(0, Known { name: name.to_owned(), until: now + span, askers });
            tell(known, |known| &known.name, judge);
        }
    }

    /// Names of an address: those that this program asked for before others, and of them the one asked for last first.
    pub(super) fn of(
        &self,
        address: IpAddr,
        program: &str,
        now: Instant,
        judge: &dyn Judge,
    ) -> Vec<String> {
        let known = self.all.get(&address.to_canonical()).map_or(&[][..], Vec::as_slice);
        let counts = known.iter().filter(|known| known.counts(now, judge));
        let is_own = |known: &&Known| known.askers.iter().any(|asker| &**asker == program);
        let (own, others): (Vec<&Known>, Vec<&Known>) = counts.partition(is_own);
        own.into_iter().chain(others).map(|known| known.name.clone()).collect()
    }

    /// Whether there is room for one more address: those that end first are forgotten, but for such that rules say.
    fn has_room(&mut self, now: Instant, judge: &dyn Judge) -> bool {
        let (looked, left) = self.looked.unwrap_or((now, 0));
        let is_full = self.all.len() >= MOST;
        // A sweep sorts all addresses. What rules keep may exceed the bound for ever, so a sweep is
        // due only after a batch of new ones.
        if self.all.len() < MOST_ADDRESSES.max(left + BATCH).min(MOST) {
            return true;
        }
        // At the hard bound each answer would cause a sweep, and most would find nothing to forget.
        if is_full && self.looked.is_some() && now < looked + LOOK {
            return false;
        }
        self.all.retain(|_, known| known.iter().any(|known| known.counts(now, judge)));
        let is_said = |known: &Vec<Known>| known.iter().any(|one| judge.said(&one.name).is_some());
        let last = |known: &Vec<Known>| known.iter().map(|known| known.until).max();
        let unsaid = self.all.iter().filter(|(_, known)| !is_said(known));
        let mut unsaid: Vec<_> = unsaid.map(|(address, known)| (last(known), *address)).collect();
        unsaid.sort_unstable();
        let kept = if is_full { 0 } else { MOST_ADDRESSES - BATCH };
        for (_, address) in unsaid.iter().take(unsaid.len().saturating_sub(kept)) {
            self.all.remove(address);
        }
        self.looked = Some((now, self.all.len()));
        self.all.len() < MOST
    }
}

/// Cuts a list of names, the most important first, to those that can change a verdict: some that no rule says, and one for
/// each of the words by which rules say them.
pub(super) fn tell<T>(names: &mut Vec<T>, name: impl Fn(&T) -> &str, judge: &dyn Judge) {
    if names.len() <= MOST_NAMES {
        return;
    }
    let (mut words, mut unsaid) = (HashSet::new(), 0);
    names.retain(|one| match judge.said(name(one)) {
        Some(said) => words.insert(said.by),
        None => {
            unsaid += 1;
            unsaid <= MOST_NAMES
        }
    });
}

#[cfg(test)]
mod tests {
    use netloom_policy::Request;

    use super::*;
    use crate::judge::{Judgement, Question, Said};

    /// Says `said` and what is below it, and denies `denied`.
    struct Says;

    impl Judge for Says {
        fn known(&self, _: &Request) -> Option<Judgement> {
            None
        }

        fn decide(&self, _: &Question<'_>) -> Judgement {
            Judgement::Allow
        }

        fn said(&self, name: &str) -> Option<Said> {
            let by = match name {
                "said" | "denied" => name,
                name if name.ends_with(".said") => "*.said",
                _ => return None,
            };
            Some(Said { by: by.to_owned(), kept: name == "denied" })
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_name_asked_for_last_comes_first_and_ones_own_before_others() {
        let (mut book, now) = (Book::default(), Instant::now());
        let there = address("10.0.0.1");
        for (name, program) in
            [("a.example", "/a"), ("b.example", "/b"), ("c.example", "/a"), ("a.example", "/b")]
        {
            book.add(name, program, &[(there, 60)], now, &Says);
        }
        let of = |address: IpAddr, program| book.of(address, program, now, &Says).join(" ");
        assert_eq!(of(there, "/a"), "a.example c.example b.example");
        assert_eq!(of(address("::ffff:10.0.0.1"), "/b"), "a.example b.example c.example");
        assert_eq!(
            (of(there, "/c"), of(address("10.0.0.2"), "/a")),
            (of(there, "/a"), String::new())
        );
    }

    #[test]
    fn a_name_ends_with_its_answer_but_not_at_once_and_a_denied_one_never() {
        let (mut book, now) = (Book::default(), Instant::now());
        let [short, long, endless] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(address);
        let all = [(short, 0), (long, 7200), (endless, u32::MAX)];
        book.add("a", "/a", &all, now, &Says);
        let left = |book: &Book, after| {
            [short, long, endless].map(|at| book.of(at, "/a", now + after, &Says).len())
        };
        assert_eq!(left(&book, Duration::from_secs(599)), [1, 1, 1]);
        assert_eq!(left(&book, Duration::from_secs(601)), [0, 1, 1]);
        assert_eq!(left(&book, Duration::from_secs(7201)), [0, 0, 1]);
        assert_eq!(left(&book, CEILING), [0, 0, 0]);
        book.add("denied", "/a", &all, now, &Says);
        assert_eq!(left(&book, 2 * CEILING), [1, 1, 1]);
        book.add("b", "/a", &all, now + 2 * CEILING, &Says);
        assert_eq!(left(&book, 2 * CEILING), [2, 2, 2]);
    }

    #[test]
    fn what_rules_say_is_not_pushed_out() {
        let (mut book, now) = (Book::default(), Instant::now());
        let there = address("10.0.0.1");
        for name in ["said", "denied"] {
            book.add(name, "/a", &[(there, 600)], now, &Says);
        }
        for number in 0..10_000_u32 {
            let other = std::net::Ipv4Addr::from(0x0B00_0000 + number).into();
            book.add(&format!("n{number}"), "/a", &[(there, 9999), (other, 9999)], now, &Says);
            book.add(&format!("n{number}.said"), "/a", &[(there, 9999)], now, &Says);
        }
        let names = book.of(there, "/a", now, &Says);
        assert_eq!(names.len(), MOST_NAMES + 3, "{names:?}");
        assert!(names.contains(&"said".to_owned()) && names.contains(&"denied".to_owned()));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut book, now) = (Book::default(), Instant::now());
        let add = |book: &mut Book, number: u32, name: &str, seconds| {
            book.add(name, "/a", &[(std::net::Ipv4Addr::from(number).into(), seconds)], now, &Says);
        };
        for number in 0..10_000_u32 {
            let seconds = if number == 0 { 80_000 } else { 1000 + number };
            add(&mut book, number, "a", seconds);
        }
        assert!(book.all.len() <= MOST_ADDRESSES);
        let of = |book: &Book, at: &str| book.of(address(at), "/a", now, &Says);
        assert_eq!(of(&book, "0.0.0.0"), ["a"], "it holds longest");
        assert!(of(&book, "0.0.0.1").is_empty());
        for number in 0..70_000_u32 {
            add(&mut book, 0x0C00_0000 + number, "x.said", 1000);
        }
        assert_eq!(book.all.len(), MOST);
        assert_eq!(of(&book, "12.0.0.0"), ["x.said"]);
    }
}
