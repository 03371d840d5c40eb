//! A policy with its rules indexed by program, destination and port, so that a decision among ten thousand rules
//! looks at as few of them as one among ten.
//!
//! Invariant, tested: [`Indexed::decide`] and [`Policy::decide`] give the same verdict.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;

use crate::decide::{Match, Policy, Verdict, by_name, peers};
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
    /// Names and domains that rules say, and whether one of them does not let pass.
    names: HashMap<String, bool>,
    domains: HashMap<String, bool>,
    /// When rules end, ascending.
    ends: Vec<Timestamp>,
}

/// What rules say about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'p> {
    /// The name itself, or the domain nearest to it, as a rule says it. Names that are said by the same words have the same
    /// verdicts.
    pub by: &'p str,
    /// Whether it is the name itself.
    pub exact: bool,
    /// Whether a rule about it denies or asks.
    pub kept: bool,
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
    resolvers: Entries,
    abstracts: HashMap<String, Entries>,
    begins: HashMap<String, Entries>,
    begin_lengths: BTreeSet<usize>,
    machines: HashMap<u32, Entries>,
}

/// A rule for at most this many single ports is found by port.
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
        // What ends with `/` is nothing in that folder, as `PathPattern::matches` has it.
        let folders = path.match_indices('/').filter(|(at, _)| at + 1 < path.len());
        let below = folders.filter_map(|(at, _)| self.below.get(&path[..at]));
        let direct = path.rfind('/').filter(|at| at + 1 < path.len());
        let direct = direct.and_then(|at| self.direct.get(&path[..at]));
        self.exact.get(path).into_iter().chain(direct).chain(below)
    }

    /// Values of patterns of folders.
    fn folders(&self) -> impl Iterator<Item = &V> {
        self.direct.values().chain(self.below.values())
    }
}

impl Entries {
    fn add(&mut self, ports: Option<&Ports>, spot: Spot) {
        let ranges = ports.map_or(&[][..], Ports::ranges);
        // A set with `free` may be about any number, so that it is not found by one.
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

    /// Whatever the port.
    fn collect_all(&self, found: &mut Vec<Spot>) {
        found.extend(&self.other);
        found.extend(self.ports.values().flatten());
    }
}

impl Bucket {
    fn entries(&mut self, to: &Destination) -> &mut Entries {
        match to {
            Destination::Any => &mut self.any,
            Destination::Resolver => &mut self.resolvers,
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
        if let Target::Name(name) = target {
            // Whatever their ports: a program that may reach a name by one of them may look it up.
            self.any.collect_all(found);
            return self.named(Some(name)).for_each(|entries| entries.collect_all(found));
        }
        let port = target.port().number();
        let mut add = |entries: &Entries| entries.collect(port, found);
        add(&self.any);
        match target {
            Target::Ip { address, resolver, .. } => {
                self.named(name).for_each(&mut add);
                if *resolver {
                    add(&self.resolvers);
                }
                self.around(*address).for_each(add);
            }
            Target::Path(path) => self.paths.of(path).for_each(add),
            // It may lie in any folder: only rules that deny or ask hold it (`Rule::leads`).
            Target::Hidden => self.paths.folders().for_each(add),
            Target::Abstract(name) => {
                self.abstracts.get(name).into_iter().for_each(&mut add);
                let begins = self.begin_lengths.iter().filter_map(|length| name.get(..*length));
                begins.filter_map(|begin| self.begins.get(begin)).for_each(add);
            }
            Target::Vsock { cid, .. } => self.machines.get(cid).into_iter().for_each(add),
            Target::Socket | Target::Name(_) => {}
        }
    }

    fn named<'b>(&'b self, name: Option<&'b str>) -> impl Iterator<Item = &'b Entries> {
        let exact = name.and_then(|name| self.names.get(name));
        let domains = name.into_iter().flat_map(domains);
        exact.into_iter().chain(domains.filter_map(|domain| self.under.get(domain)))
    }

    fn around(&self, address: IpAddr) -> impl Iterator<Item = &Entries> {
        let lengths = self.lengths[family(address)].iter();
        let nets = lengths.filter_map(move |length| IpNet::new(address, *length).ok());
        nets.filter_map(|net| self.nets.get(&net.trunc()))
    }
}

/// The domains that a name is below, the nearest first.
fn domains(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter(|(at, _)| *at > 0).map(|(at, _)| &name[at + 1..])
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
                let (said, name) = match destination {
                    Destination::Name(name) => (&mut indexed.names, name),
                    Destination::Under(domain) => (&mut indexed.domains, domain),
                    _ => continue,
                };
                *said.entry(name.clone()).or_default() |= !rule.action.passes();
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
        by_name(request, self.policy.default, |name| self.matches(request, name, now))
    }

    /// What rules say about a name, whichever program asks for it; `None` if no rule says it.
    pub fn said(&self, name: &str) -> Option<Said<'_>> {
        let exact = self.names.get_key_value(name);
        let mut around = domains(name).filter_map(|domain| self.domains.get_key_value(domain));
        let all: Vec<_> = exact.into_iter().chain(&mut around).collect();
        let (by, _) = all.first()?;
        Some(Said { by, exact: exact.is_some(), kept: all.iter().any(|(_, kept)| **kept) })
    }

    /// The peers that may reach a listener, see [`Policy::peers`].
    pub fn peers(&self, request: &Request, now: Timestamp) -> Option<Peers> {
        peers(&self.matches(request, None, now))
    }

    fn matches(&self, request: &Request, name: Option<&str>, now: Timestamp) -> Vec<Match<'_>> {
        let mut found = vec![];
        self.anyone.collect(&request.target, name, &mut found);
        for bucket in self.programs.of(&request.program.path) {
            bucket.collect(&request.target, name, &mut found);
        }
        let matches = found.into_iter().filter_map(|Spot { rule: at, to }| {
            let rule = self.policy.rules.get(at)?;
            let to = rule.to.get(to)?;
            // The index finds candidates. Protocols, times,
            // digests and long ranges are left to the rule.
            let is_about = rule.concerns(request, now) && rule.leads(to, &request.target, name);
            is_about.then_some(Match { at, rule, to })
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
        // Made again as a whole: what people answer comes seldom.
        *self = Indexed::new(policy);
    }
}
