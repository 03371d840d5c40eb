//! A policy and its verdicts.

use jiff::Timestamp;

use crate::action::{Action, Errno};
use crate::pattern::{Destination, PathPattern, Peers};
use crate::request::{Request, Target};
use crate::rule::Rule;

/// Rules, and what happens where none matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What happens to a request that no rule matches.
    pub default: Action,
    /// What happens to a question that nobody answers.
    pub unanswered: Action,
    /// The rules; their order has no meaning.
    pub rules: Vec<Rule>,
}

impl Default for Policy {
    /// Asks for everything, and denies what is not answered.
    fn default() -> Self {
        Policy { default: Action::Ask, unanswered: Action::Deny(Errno::default()), rules: vec![] }
    }
}

/// What a policy says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What happens.
    pub action: Action,
    /// The rule that says so, by its position; `None` is the default.
    pub rule: Option<usize>,
}

/// A rule and the one of its destinations that matches.
#[derive(Clone, Copy)]
pub(crate) struct Match<'p> {
    pub(crate) at: usize,
    pub(crate) rule: &'p Rule,
    pub(crate) to: &'p Destination,
}

impl Match<'_> {
    fn within(&self, other: &Match<'_>) -> bool {
        self.to.within(other.to) && self.rule.within(other.rule)
    }

    /// Whether this one is narrower: within the other, which is not within this one.
    fn beats(&self, other: &Match<'_>) -> bool {
        self.within(other) && !other.within(self)
    }
}

impl Policy {
    /// The policy that allows nothing, and asks nobody.
    pub fn nothing() -> Policy {
        let denial = Action::Deny(Errno::default());
        Policy { default: denial, unanswered: denial, rules: vec![] }
    }

    /// What happens to `request` at `now`.
    ///
    /// Takes time in proportion to the rules, and to the square of those that match;
    /// [`Indexed`](crate::Indexed) is quicker.
    pub fn decide(&self, request: &Request, now: Timestamp) -> Verdict {
        by_name(request, self.default, |name| self.matches(request, name, now))
    }

    fn matches<'p>(
        &'p self,
        request: &'p Request,
        name: Option<&'p str>,
        now: Timestamp,
    ) -> Vec<Match<'p>> {
        let rules = self.rules.iter().enumerate();
        let matches = rules.flat_map(|(at, rule)| {
            rule.matching(request, name, now).map(move |to| Match { at, rule, to })
        });
        matches.collect()
    }

    /// The peers that may reach a listener for which `request` asks; `None` is everybody. Of several rules that none beats each
    /// has a say: allowed peers are in the `from` of all that have one.
    pub fn peers(&self, request: &Request, now: Timestamp) -> Option<Peers> {
        peers(&self.matches(request, None, now))
    }

    /// Whether a rule says which peers may reach a listener.
    pub fn limits_peers(&self) -> bool {
        self.rules.iter().any(|rule| rule.from.is_some())
    }

    /// The policy with paths as the files of a machine have them: `follow` gives a path without symbolic links. The end of
    /// a pattern stays.
    #[must_use]
    pub fn followed(mut self, follow: impl Fn(&str) -> Option<String>) -> Policy {
        for rule in &mut self.rules {
            let destinations = rule.to.iter_mut().filter_map(|to| match to {
                Destination::Path(pattern) => Some(pattern),
                _ => None,
            });
            for pattern in destinations.chain(&mut rule.program.path) {
                *pattern = pattern.followed(&follow);
            }
        }
        self
    }

    /// Paths of sockets that a rule denies, or asks about.
    pub fn kept_paths(&self) -> Vec<String> {
        let kept = self.rules.iter().filter(|rule| !rule.action.passes());
        let paths = kept.flat_map(|rule| &rule.to).filter_map(|to| match to {
            Destination::Path(PathPattern::Exact(path)) => Some(path.clone()),
            _ => None,
        });
        let all: std::collections::BTreeSet<String> = paths.collect();
        all.into_iter().collect()
    }

    /// Whether a person may be asked.
    pub fn asks(&self) -> bool {
        self.default == Action::Ask || self.rules.iter().any(|rule| rule.action == Action::Ask)
    }

    /// Adds a rule in the place of those that match exactly the same requests, and so would dispute it.
    pub fn remember(&mut self, rule: Rule) {
        // Of two equally narrow rules the stricter one would win, whichever came last.
        self.rules.retain(|old| !(old.covered_by(&rule) && rule.covered_by(old)));
        self.rules.push(rule);
    }

    /// Takes away rules that have ended at `now`.
    pub fn forget_ended(&mut self, now: Timestamp) {
        self.rules.retain(|rule| rule.until.is_none_or(|end| now < end));
    }
}

/// The strictest verdict on the target by each of its names that a rule says, or by none if no rule says one.
///
/// A name that no rule says changes nothing: else looking up one more name would change what the others allow.
pub(crate) fn by_name<'p>(
    request: &'p Request,
    default: Action,
    matches: impl Fn(Option<&'p str>) -> Vec<Match<'p>>,
) -> Verdict {
    let names: &[String] = match &request.target {
        Target::Ip { names, .. } => names,
        _ => &[],
    };
    let said = names.iter().map(|name| matches(Some(name)));
    let said = said.filter(|all| all.iter().any(|one| one.to.says_name()));
    // Each name is judged on its own: a rule about one says nothing of what another leads to.
    let verdicts = said.map(|all| settle(all, default));
    verdicts.max_by(|a, b| stricter(*a, *b)).unwrap_or_else(|| settle(matches(None), default))
}

fn unbeaten<'m>(matches: &'m [Match<'m>]) -> impl Iterator<Item = &'m Match<'m>> {
    // None beats itself; to find that out takes long where a rule has many ports.
    let beaten = |one: &Match| matches.iter().any(|two| !std::ptr::eq(one, two) && two.beats(one));
    matches.iter().filter(move |one| !beaten(one))
}

/// The peers that all matches leave which none beats.
pub(crate) fn peers(matches: &[Match<'_>]) -> Option<Peers> {
    let sets = unbeaten(matches).filter_map(|one| one.rule.from.clone());
    sets.reduce(|all, more| all.and(&more))
}

/// The strictest of the matches that none beats; `default` without any.
pub(crate) fn settle(matches: Vec<Match<'_>>, default: Action) -> Verdict {
    let verdicts =
        unbeaten(&matches).map(|one| Verdict { action: one.rule.action, rule: Some(one.at) });
    let fallback = Verdict { action: default, rule: None };
    verdicts.max_by(|a, b| stricter(*a, *b)).unwrap_or(fallback)
}

/// Order of strictness; of equal ones the rule that stands first in the file is named.
fn stricter(a: Verdict, b: Verdict) -> std::cmp::Ordering {
    a.action.cmp(&b.action).then(b.rule.cmp(&a.rule))
}
