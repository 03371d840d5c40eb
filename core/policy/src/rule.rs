//! A rule: an action for requests of a direction, narrowed by program, destination, port, protocol and time.

use jiff::Timestamp;

use crate::action::Action;
use crate::pattern::{Destination, Peers, Ports, ProgramPattern};
use crate::request::{Direction, Protocol, Request, Target};

/// A rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// What happens.
    pub action: Action,
    /// The direction it is about.
    pub direction: Direction,
    /// The programs it is about.
    pub program: ProgramPattern,
    /// The destinations it is about, never empty.
    pub to: Vec<Destination>,
    /// The ports it is about; `None` is any, and none.
    pub ports: Option<Ports>,
    /// The protocols it is about; empty is any.
    pub protocols: Vec<Protocol>,
    /// The peers that may reach a listener that it allows; `None` is all. It narrows what happens, not what is matched.
    pub from: Option<Peers>,
    /// When it ends; `None` is never.
    pub until: Option<Timestamp>,
    /// Why it is there, for readers.
    pub note: Option<String>,
}

impl Rule {
    /// A rule for every request of a direction.
    pub fn every(action: Action, direction: Direction) -> Rule {
        Rule {
            action,
            direction,
            program: ProgramPattern::default(),
            to: vec![Destination::Any],
            ports: None,
            protocols: vec![],
            from: None,
            until: None,
            note: None,
        }
    }

    /// Whether the rule is about this request at `now`, leaving its destination aside.
    pub(crate) fn concerns(&self, request: &Request, now: Timestamp) -> bool {
        let port = |ports: &Ports| ports.contains(request.target.port());
        let way = (self.protocols.is_empty() || self.names_protocol(request.protocol))
            && self.ports.as_ref().is_none_or(port);
        self.direction == request.direction
            && (way || (request.protocol == Protocol::Dns && self.lets_look_up()))
            && self.until.is_none_or(|end| now < end)
            && self.program.matches(&request.program)
    }

    /// Whether it allows some way to what has names: a program that may reach a name may look it up. Whom it keeps from some way only
    /// may, too.
    fn lets_look_up(&self) -> bool {
        let leads = |protocol: &Protocol| protocol.has_names();
        self.action.passes() && (self.protocols.is_empty() || self.protocols.iter().any(leads))
    }

    fn names_protocol(&self, protocol: Protocol) -> bool {
        self.protocols.iter().any(|one| one.covers(protocol))
    }

    /// The destinations of the rule that match `request`, known as `name`.
    pub(crate) fn matching<'r>(
        &'r self,
        request: &'r Request,
        name: Option<&'r str>,
        now: Timestamp,
    ) -> impl Iterator<Item = &'r Destination> {
        let concerned = self.concerns(request, now);
        self.to.iter().filter(move |to| concerned && self.leads(to, &request.target, name))
    }

    /// Whether a destination of this rule matches. What may lie there is allowed by no rule, and may be denied by this one.
    pub(crate) fn leads(&self, to: &Destination, target: &Target, name: Option<&str>) -> bool {
        to.matches(target, name) || (!self.action.passes() && to.may_hold(target))
    }

    /// Whether everything that this rule matches is matched by `other`, too, leaving destinations aside.
    pub(crate) fn within(&self, other: &Rule) -> bool {
        let ports = match (&self.ports, &other.ports) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(a), Some(b)) => a.within(b),
        };
        let until = match (self.until, other.until) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(a), Some(b)) => a <= b,
        };
        let protocols = other.protocols.is_empty()
            || (!self.protocols.is_empty()
                && self.protocols.iter().all(|one| other.names_protocol(*one)));
        self.direction == other.direction
            && ports
            && until
            && protocols
            && self.program.within(&other.program)
    }

    /// Whether every request that this rule matches is matched by `other`, too.
    ///
    /// Each destination must lie within a single one of `other`, so that two halves of a prefix are not seen
    /// to cover the whole.
    pub fn covered_by(&self, other: &Rule) -> bool {
        let covered = |to: &Destination| other.to.iter().any(|wide| to.within(wide));
        self.within(other) && self.to.iter().all(covered)
    }
}
