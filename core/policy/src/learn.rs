//! The least policy that allows what happened.
//!
//! What a program did becomes rules of that program, with exact destinations, ports and protocols: a name where
//! every address was reached by one, otherwise the address. Ports that the kernel chose (0) stay 0. Digests
//! of programs are written on request only: a rule with one ends with the next update of the program.

use std::collections::{BTreeMap, BTreeSet};

use crate::action::Action;
use crate::decide::Policy;
use crate::pattern::{Destination, PathPattern, Ports, ProgramPattern, Sha256};
use crate::request::{Direction, Protocol, Request, Target};
use crate::rule::Rule;

/// Collects requests; [`Learned::policy`] says what would allow them.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    digests: bool,
    seen: BTreeMap<Key, BTreeSet<u32>>,
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

impl Learned {
    /// An empty collection; with `digests`, rules name the content of programs.
    pub fn new(digests: bool) -> Learned {
        Learned { digests, ..Learned::default() }
    }

    /// Adds a request that is to be allowed.
    pub fn add(&mut self, request: &Request) {
        let sha256 = request.program.sha256.map(Sha256).filter(|_| self.digests);
        for to in destinations(request) {
            let key = Key {
                program: request.program.path.clone(),
                sha256,
                direction: request.direction,
                protocol: request.protocol,
                to,
            };
            self.seen.entry(key).or_default().extend(request.target.port());
        }
    }

    /// The policy that allows all requests added so far, and denies everything else.
    ///
    /// Destinations with the same ports share a rule. A path that no pattern can name (a deleted
    /// executable) is left out, since a rule for any program would allow more than happened.
    pub fn policy(&self) -> Policy {
        let mut shared: BTreeMap<_, Vec<Destination>> = BTreeMap::new();
        for (key, ports) in &self.seen {
            let same = (&key.program, key.sha256, key.direction, key.protocol, ports);
            shared.entry(same).or_default().push(key.to.clone());
        }
        let rules =
            shared.into_iter().filter_map(|((program, sha256, direction, protocol, ports), to)| {
                let path = PathPattern::parse(program).ok()?;
                let mut rule = Rule::every(Action::Allow, direction);
                rule.program = ProgramPattern { path: Some(path), sha256 };
                rule.protocols = vec![protocol];
                rule.ports = Ports::of(ports.iter().map(|port| (*port, *port)));
                rule.to = to;
                Some(rule)
            });
        let denied = Policy::default().unanswered;
        Policy { default: denied, unanswered: denied, rules: rules.collect() }
    }
}

/// What a rule must name so that it matches the target: all its names, or else its address.
fn destinations(request: &Request) -> Vec<Destination> {
    match &request.target {
        Target::Ip { names, .. } if !names.is_empty() => {
            names.iter().cloned().map(Destination::Name).collect()
        }
        Target::Ip { address, .. } => vec![Destination::Net((*address).into())],
        Target::Path(path) => match PathPattern::parse(path) {
            Ok(pattern) => vec![Destination::Path(pattern)],
            Err(_) => vec![],
        },
        Target::Abstract(name) => vec![Destination::Abstract(name.clone())],
        Target::Vsock { cid, .. } => vec![Destination::Vsock(*cid)],
        Target::Socket if request.direction == Direction::Open => vec![Destination::Any],
        // Without a known destination a rule would be about all of them.
        Target::Socket => vec![],
    }
}
