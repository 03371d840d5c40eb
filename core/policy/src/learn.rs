//! The least policy that allows what happened.
//!
//! What a program did becomes rules of that program, with exact destinations, ports and protocols: a name where
//! the address was reached by one, otherwise the address. Of several names of an address one is enough, and the others
//! get no rule by that: the one that is needed anyway, or else the one that was asked for last. A name that was
//! looked up and not reached becomes a rule that lets look it up alone. A port that the kernel chose becomes `free`, since it
//! chooses another one the next time. Digests of programs are written on request only: a rule with one ends with
//! the next update of the program.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use crate::action::Action;
use crate::decide::Policy;
use crate::index::Indexed;
use crate::pattern::{Destination, Part, PathPattern, Ports, ProgramPattern, Sha256};
use crate::request::{Direction, Protocol, Request, Target};
use crate::rule::Rule;

/// Requests that are kept; what happens after this many different ones is not learned, and counted.
pub const MOST: usize = 1 << 16;

/// Collects requests; [`Learned::policy`] says what would allow them.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    digests: bool,
    seen: HashSet<Request>,
    lost: u64,
}

/// Learned rules, within a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The policy.
    pub policy: Policy,
    /// Requests that it does not allow: of programs or sockets that no rule can name (a deleted executable),
    /// or against a rule that no exact rule beats.
    pub left_out: Vec<Request>,
}

/// Requests that differ in their port alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    program: String,
    sha256: Option<Sha256>,
    direction: Direction,
    protocol: Protocol,
    to: Destination,
}

/// Ports by what else a rule names.
type Keys = BTreeMap<Key, BTreeSet<Part>>;

impl Learned {
    /// An empty collection; with `digests`, rules name the content of programs.
    pub fn new(digests: bool) -> Learned {
        Learned { digests, ..Learned::default() }
    }

    /// Adds a request that is to be allowed.
    pub fn add(&mut self, request: &Request) {
        if self.seen.contains(request) {
            return;
        }
        if self.seen.len() >= MOST {
            self.lost += 1;
            return;
        }
        self.seen.insert(request.clone());
    }

    /// Different requests that were too many to be kept.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether rules name the content of programs.
    pub fn names_digests(&self) -> bool {
        self.digests
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// The policy that allows all requests added so far, and denies everything else.
    pub fn policy(&self) -> Policy {
        let denied = Policy::default().unanswered;
        let nothing = Policy { default: denied, unanswered: denied, rules: vec![] };
        self.merge(&nothing).policy
    }

    /// `base`, and what else is needed to allow the requests added so far.
    ///
    /// Where `base` only allows, rules of earlier learning are joined with new ones. Rules that end count for nothing.
    pub fn merge(&self, base: &Policy) -> Merged {
        let passes = |policy: &Indexed, request: &Request| {
            // Rules that end were taken away, so that any time will do.
            policy.decide(request, Timestamp::UNIX_EPOCH).action.passes()
        };
        let mut known = lasting(base);
        let mut missing: Vec<&Request> =
            self.seen.iter().filter(|request| !passes(&known, request)).collect();
        let mut names = base.clone();
        // In this order: a name that is needed anyway may be one
        // of several, and what is reached may also be looked up.
        for kind in [has_one_name, has_several_names, is_looked_up] {
            let mut keys = Keys::new();
            for request in missing.iter().filter(|one| kind(one) && !passes(&known, one)) {
                let to = destinations(&request.target, request.direction);
                note(request, self.digests, &to, &mut keys);
            }
            if !keys.is_empty() {
                names = joined(&names, keys);
                known = lasting(&names);
            }
        }
        let names = Indexed::new(names);
        // A name beats no stricter rule about addresses, and a path none about a digest; address and digest do.
        let mut exact = Keys::new();
        missing.retain(|request| !passes(&names, request));
        for request in &missing {
            let mut to = destinations(&request.target, request.direction);
            if let Target::Ip { address, .. } = &request.target {
                to.push(Destination::Net((*address).into()));
            }
            note(request, true, &to, &mut exact);
        }
        let mut policy = names.into_policy();
        add(&mut policy, rules(&exact, true));
        let all = Indexed::new(policy);
        missing.retain(|request| !passes(&all, request));
        Merged { left_out: missing.into_iter().cloned().collect(), policy: all.into_policy() }
    }
}

/// The policy without rules that end.
fn lasting(policy: &Policy) -> Indexed {
    let rules = policy.rules.iter().filter(|rule| rule.until.is_none());
    Indexed::new(Policy { rules: rules.cloned().collect(), ..policy.clone() })
}

fn is_looked_up(request: &Request) -> bool {
    matches!(request.target, Target::Name(_))
}

fn has_several_names(request: &Request) -> bool {
    matches!(&request.target, Target::Ip { names, .. } if names.len() > 1)
}

fn has_one_name(request: &Request) -> bool {
    !is_looked_up(request) && !has_several_names(request)
}

/// Adds the keys of a request; none if its program has no path that a rule can name, since a rule for any program
/// would allow more than happened.
fn note(request: &Request, digest: bool, to: &[Destination], keys: &mut Keys) {
    if PathPattern::exact(&request.program.path).is_none() {
        return;
    }
    for to in to {
        let key = Key {
            program: request.program.path.clone(),
            sha256: request.program.sha256.map(Sha256).filter(|_| digest),
            direction: request.direction,
            protocol: request.protocol,
            to: to.clone(),
        };
        keys.entry(key).or_default().extend(Part::of(request.target.port()));
    }
}

/// Adds those rules that are not there yet.
fn add(policy: &mut Policy, rules: Vec<Rule>) {
    let mut there: HashSet<Rule> = policy.rules.iter().cloned().collect();
    policy.rules.extend(rules.into_iter().filter(|rule| there.insert(rule.clone())));
}

/// `base` with rules for `keys`.
fn joined(base: &Policy, mut keys: Keys) -> Policy {
    let mut policy = base.clone();
    // A rule for several ports beats less than one for each of them would.
    let by_port = base.rules.iter().any(|rule| !rule.action.passes());
    if !by_port && !keys.is_empty() {
        policy.rules.retain(|rule| !absorb(rule, &mut keys));
    }
    add(&mut policy, rules(&keys, by_port));
    policy
}

/// Takes the keys of a rule such as this module writes; false for others.
fn absorb(rule: &Rule, keys: &mut Keys) -> bool {
    let (Some(PathPattern::Exact(program)), [protocol]) =
        (&rule.program.path, rule.protocols.as_slice())
    else {
        return false;
    };
    let ports = rule.ports.as_ref().map_or(&[][..], Ports::ranges);
    let exact = |to: &Destination| match to {
        Destination::Any => rule.direction == Direction::Open,
        Destination::Net(net) => net.prefix_len() == net.max_prefix_len(),
        Destination::Name(_)
        | Destination::Resolver
        | Destination::Abstract(_)
        | Destination::Vsock(_) => true,
        Destination::Path(pattern) => matches!(pattern, PathPattern::Exact(_)),
        Destination::Under(_) | Destination::AbstractPrefix(_) => false,
    };
    let has_port = |to: &Destination| {
        use Destination as D;
        matches!(to, D::Net(_) | D::Name(_) | D::Resolver | D::Vsock(_))
    };
    // A rule without ports is about any port, which no key says.
    let portless = rule.ports.is_some() != protocol.has_ports() && rule.to.iter().any(has_port);
    let free = rule.ports.as_ref().is_some_and(Ports::has_free).then_some(Part::Free);
    let single = |port| Part::Range(port, port);
    // A long range was written by a person: taken port by port it would be a long rule.
    let few = ports.iter().all(|(low, high)| high - low < 64);
    let plain = rule.action == Action::Allow
        && rule.until.is_none()
        && rule.note.is_none()
        && rule.from.is_none();
    if !plain || portless || !few || !rule.to.iter().all(exact) {
        return false;
    }
    for to in &rule.to {
        let key = Key {
            program: program.clone(),
            sha256: rule.program.sha256,
            direction: rule.direction,
            protocol: *protocol,
            to: to.clone(),
        };
        let named = ports.iter().flat_map(|(low, high)| *low..=*high).map(single);
        keys.entry(key).or_default().extend(named.chain(free));
    }
    true
}

/// Rules for `keys`; destinations with the same ports share one.
fn rules(keys: &Keys, by_port: bool) -> Vec<Rule> {
    let mut shared: BTreeMap<_, Vec<Destination>> = BTreeMap::new();
    for (key, ports) in keys {
        let sets: Vec<Vec<Part>> = match by_port && !ports.is_empty() {
            true => ports.iter().map(|port| vec![*port]).collect(),
            false => vec![ports.iter().copied().collect()],
        };
        for ports in sets {
            let same = (&key.program, key.sha256, key.direction, key.protocol, ports);
            shared.entry(same).or_default().push(key.to.clone());
        }
    }
    let rules =
        shared.into_iter().filter_map(|((program, sha256, direction, protocol, ports), to)| {
            let path = PathPattern::parse(program).ok()?;
            let mut rule = Rule::every(Action::Allow, direction);
            rule.program = ProgramPattern { path: Some(path), sha256 };
            rule.protocols = vec![protocol];
            rule.ports = Ports::of(ports);
            rule.to = to;
            Some(rule)
        });
    rules.collect()
}

/// What a rule must say so that it matches this target and no other: the resolver, its first name that a rule can say, or
/// else its address. Empty if no rule can: what a program may choose must not be read back as a pattern.
pub fn destinations(target: &Target, direction: Direction) -> Vec<Destination> {
    let readable = |to: &Destination| Destination::parse(&to.to_string()).as_ref() == Ok(to);
    let one = match target {
        Target::Ip { resolver: true, .. } => Destination::Resolver,
        Target::Ip { address, names, .. } => {
            let mut names = names.iter().cloned().map(Destination::Name);
            names.find(readable).unwrap_or(Destination::Net((*address).into()))
        }
        Target::Name(name) => Destination::Name(name.clone()),
        Target::Path(path) => Destination::Path(PathPattern::Exact(path.clone())),
        Target::Abstract(name) => Destination::Abstract(name.clone()),
        Target::Vsock { cid, .. } => Destination::Vsock(*cid),
        Target::Socket if direction == Direction::Open => Destination::Any,
        // Without a known destination a rule would be about all of them.
        Target::Socket | Target::Hidden => return vec![],
    };
    if readable(&one) { vec![one] } else { vec![] }
}
