//! A policy with its rules indexed by program, destination and port, so that a decision among ten thousand rules
//! looks at as few of them as one among ten.
//!
//! Invariant, tested: [`Indexed::decide`] and [`Policy::decide`] give the same verdict.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;

use crate::decide::{Match, Policy, Verdict, by_name, peers, settle};
use crate::pattern::{Destination, PathPattern, Peers, Ports};
use crate::request::{Request, Target};
use crate::rule::Rule;

/// A policy that decides quickly.
#[derive(Clone, Debug, Default)]
pub struct Indexed {
    policy: Policy,
    /// Rules of programs, by path.
    programs: ByPath<Bucket>,
    /// Rules of any program.
    anyone: Bucket,
    /// When rules end, ascending.
    ends: Vec<Timestamp>,
}

/// A destination of a rule, by the positions of both.
#[derive(Clone, Copy, Debug)]
struct Spot {
    rule: usize,
    to: usize,
}

/// Values by patterns of paths.
#[derive(Clone, Debug)]
struct ByPath<V> {
    exact: HashMap<String, V>,
    direct: HashMap<String, V>,
    below: HashMap<String, V>,
}

/// Spots of one destination; those for a few ports by port.
#[derive(Clone, Debug, Default)]
struct Entries {
    ports: HashMap<u32, Vec<Spot>>,
    other: Vec<Spot>,
}

/// Spots of one pattern of programs, by destination.
#[derive(Clone, Debug, Default)]
struct Bucket {
    any: Entries,
    names: HashMap<String, Entries>,
    under: HashMap<String, Entries>,
    nets: HashMap<IpNet, Entries>,
    /// Lengths of prefixes that occur, of IPv4 and IPv6.
    lengths: [BTreeSet<u8>; 2],
    paths: ByPath<Entries>,
    abstracts: HashMap<String, Entries>,
    begins: HashMap<String, Entries>,
    begin_lengths: BTreeSet<usize>,
    machines: HashMap<u32, Entries>,
}

/// A rule for at most so many single ports is found by port.
const SINGLE_PORTS: usize = 16;

impl<V> Default for ByPath<V> {
    fn default() -> Self {
        ByPath { exact: HashMap::new(), direct: HashMap::new(), below: HashMap::new() }
    }
}

impl<V: Default> ByPath<V> {
    fn entry(&mut self, pattern: &PathPattern) -> &mut V {
        let (map, key) = match pattern {
            PathPattern::Exact(path) => (&mut self.exact, path),
            PathPattern::In(folder) => (&mut self.direct, folder),
            PathPattern::Below(folder) => (&mut self.below, folder),
        };
        map.entry(key.clone()).or_default()
    }

    /// Values of patterns that match `path`.
    fn of<'v>(&'v self, path: &'v str) -> impl Iterator<Item = &'v V> {
        let folders = path.match_indices('/').filter(|(at, _)| at + 1 < path.len());
        let below = folders.filter_map(|(at, _)| self.below.get(&path[..at]));
        let direct = path.rfind('/').filter(|at| at + 1 < path.len());
        let direct = direct.and_then(|at| self.direct.get(&path[..at]));
        self.exact.get(path).into_iter().chain(direct).chain(below)
    }
}

impl Entries {
    fn add(&mut self, ports: Option<&Ports>, spot: Spot) {
        let ranges = ports.map_or(&[][..], Ports::ranges);
        let single = (1..=SINGLE_PORTS).contains(&ranges.len())
            && ports.is_some_and(|ports| !ports.has_free())
            && ranges.iter().all(|(low, high)| low == high);
        if single {
            for (port, _) in ranges {
                self.ports.entry(*port).or_default().push(spot);
            }
        } else {
            self.other.push(spot);
        }
    }

    fn collect(&self, port: Option<u32>, found: &mut Vec<Spot>) {
        found.extend(&self.other);
        found.extend(port.and_then(|port| self.ports.get(&port)).into_iter().flatten());
    }
}

impl Bucket {
    fn entries(&mut self, to: &Destination) -> &mut Entries {
        match to {
            Destination::Any => &mut self.any,
            Destination::Name(name) => self.names.entry(name.clone()).or_default(),
            Destination::Under(domain) => self.under.entry(domain.clone()).or_default(),
            Destination::Net(net) => {
                self.lengths[family(net.addr())].insert(net.prefix_len());
                self.nets.entry(*net).or_default()
            }
            Destination::Path(pattern) => self.paths.entry(pattern),
            Destination::Abstract(name) => self.abstracts.entry(name.clone()).or_default(),
            Destination::AbstractPrefix(begin) => {
                self.begin_lengths.insert(begin.len());
                self.begins.entry(begin.clone()).or_default()
            }
            Destination::Vsock(cid) => self.machines.entry(*cid).or_default(),
        }
    }

    /// Adds the spots whose destination matches.
    fn collect(&self, target: &Target, name: Option<&str>, found: &mut Vec<Spot>) {
        let port = target.port().number();
        let mut add = |entries: &Entries| entries.collect(port, found);
        add(&self.any);
        match target {
            Target::Ip { address, .. } => {
                self.named(name).for_each(&mut add);
                self.around(*address).for_each(add);
            }
            Target::Path(path) => self.paths.of(path).for_each(add),
            Target::Abstract(name) => {
                self.abstracts.get(name).into_iter().for_each(&mut add);
                let begins = self.begin_lengths.iter().filter_map(|length| name.get(..*length));
                begins.filter_map(|begin| self.begins.get(begin)).for_each(add);
            }
            Target::Vsock { cid, .. } => self.machines.get(cid).into_iter().for_each(add),
            Target::Socket => {}
        }
    }

    fn named<'b>(&'b self, name: Option<&'b str>) -> impl Iterator<Item = &'b Entries> {
        let exact = name.and_then(|name| self.names.get(name));
        let domains = name.into_iter().flat_map(|name| {
            name.match_indices('.').filter(|(at, _)| *at > 0).map(|(at, _)| &name[at + 1..])
        });
        exact.into_iter().chain(domains.filter_map(|domain| self.under.get(domain)))
    }

    fn around(&self, address: IpAddr) -> impl Iterator<Item = &Entries> {
        let lengths = self.lengths[family(address)].iter();
        let nets = lengths.filter_map(move |length| IpNet::new(address, *length).ok());
        nets.filter_map(|net| self.nets.get(&net.trunc()))
    }
}

fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

impl Indexed {
    /// Indexes the rules of a policy.
    pub fn new(policy: Policy) -> Indexed {
        let mut indexed = Indexed { policy, ..Indexed::default() };
        for (at, rule) in indexed.policy.rules.iter().enumerate() {
            let bucket = match &rule.program.path {
                Some(pattern) => indexed.programs.entry(pattern),
                None => &mut indexed.anyone,
            };
            for (to, destination) in rule.to.iter().enumerate() {
                bucket.entries(destination).add(rule.ports.as_ref(), Spot { rule: at, to });
            }
        }
        indexed.ends = indexed.policy.rules.iter().filter_map(|rule| rule.until).collect();
        indexed.ends.sort_unstable();
        indexed
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The policy alone.
    pub fn into_policy(self) -> Policy {
        self.policy
    }

    /// What happens to `request` at `now`; takes time in proportion to the square of the rules that match.
    pub fn decide(&self, request: &Request, now: Timestamp) -> Verdict {
        by_name(request, |name| self.judge(request, name, now))
    }

    /// Who may reach a listener, see [`Policy::peers`].
    pub fn peers(&self, request: &Request, now: Timestamp) -> Option<Peers> {
        peers(&self.matches(request, None, now))
    }

    fn judge(&self, request: &Request, name: Option<&str>, now: Timestamp) -> Verdict {
        settle(self.matches(request, name, now), self.policy.default)
    }

    fn matches(&self, request: &Request, name: Option<&str>, now: Timestamp) -> Vec<Match<'_>> {
        let mut found = vec![];
        self.anyone.collect(&request.target, name, &mut found);
        for bucket in self.programs.of(&request.program.path) {
            bucket.collect(&request.target, name, &mut found);
        }
        let matches = found.into_iter().filter_map(|Spot { rule: at, to }| {
            let rule = self.policy.rules.get(at)?;
            rule.concerns(request, now).then(|| Some(Match { at, rule, to: rule.to.get(to)? }))?
        });
        matches.collect()
    }

    /// When the next rule ends after `now`: until then verdicts stay.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.ends.get(self.ends.partition_point(|end| *end <= now)).copied()
    }

    /// Adds a rule, see [`Policy::remember`].
    pub fn remember(&mut self, rule: Rule) {
        let mut policy = std::mem::take(&mut self.policy);
        policy.remember(rule);
        *self = Indexed::new(policy);
    }
}
