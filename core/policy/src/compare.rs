//! Two policies side by side: what came, what went, and whether it lets more or less through.

use std::fmt;

use crate::action::Action;
use crate::decide::Policy;
use crate::rule::Rule;
use crate::write::line;

/// A difference between two policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The default action.
    Default(Action, Action),
    /// The action for unanswered questions.
    Unanswered(Action, Action),
    /// A rule that only the first policy has.
    Removed(Rule),
    /// A rule that only the second policy has.
    Added(Rule),
}

/// What differs between `old` and `new`, in the order of their rules; notes do not count.
pub fn compare(old: &Policy, new: &Policy) -> Vec<Change> {
    let mut changes = vec![];
    if old.default != new.default {
        changes.push(Change::Default(old.default, new.default));
    }
    if old.unanswered != new.unanswered {
        changes.push(Change::Unanswered(old.unanswered, new.unanswered));
    }
    changes.extend(missing(&old.rules, &new.rules).map(Change::Removed));
    changes.extend(missing(&new.rules, &old.rules).map(Change::Added));
    changes
}

fn missing<'r>(rules: &'r [Rule], others: &'r [Rule]) -> impl Iterator<Item = Rule> + 'r {
    let alike = |a: &Rule, b: &Rule| {
        a.action == b.action && a.from == b.from && a.covered_by(b) && b.covered_by(a)
    };
    rules.iter().filter(move |rule| !others.iter().any(|other| alike(rule, other))).cloned()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Default(old, new) => write!(f, "- default: {old}\n+ default: {new}"),
            Change::Unanswered(old, new) => write!(f, "- unanswered: {old}\n+ unanswered: {new}"),
            Change::Removed(rule) => write!(f, "- {}", line(rule)),
            Change::Added(rule) => write!(f, "+ {}", line(rule)),
        }
    }
}
