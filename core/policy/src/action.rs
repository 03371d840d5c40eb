//! What a rule does with a request, and the error that a denied call returns.

use std::fmt;

/// What happens to a request, from the most lenient to the strictest.
///
/// The order is that of strictness: of equally specific rules the greatest action wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The call takes place.
    Allow,
    /// The call takes place and is always logged, also where allowed calls are not.
    Log,
    /// A person is asked.
    Ask,
    /// The call returns this error.
    Deny(Errno),
}

impl Action {
    /// Names of actions as files write them, lenient ones first.
    pub const NAMES: [&str; 4] = ["allow", "log", "ask", "deny"];

    /// The action of a name; a denial has the default error.
    pub fn named(name: &str) -> Option<Action> {
        Some(match name {
            "allow" => Action::Allow,
            "log" => Action::Log,
            "ask" => Action::Ask,
            "deny" => Action::Deny(Errno::default()),
            _ => return None,
        })
    }

    /// The name as files write it.
    pub fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Log => "log",
            Action::Ask => "ask",
            Action::Deny(_) => "deny",
        }
    }

    /// Whether the call takes place without a question.
    pub fn passes(self) -> bool {
        matches!(self, Action::Allow | Action::Log)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error that a denied call may return, by its Linux name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(u16);

/// Errors that network calls return, with their numbers on x86-64, i386, and arm64 (asm-generic/errno.h).
const ERRNOS: [(&str, u16); 11] = [
    ("EPERM", 1),
    ("EACCES", 13),
    ("EAFNOSUPPORT", 97),
    ("EADDRINUSE", 98),
    ("EADDRNOTAVAIL", 99),
    ("ENETDOWN", 100),
    ("ENETUNREACH", 101),
    ("ECONNRESET", 104),
    ("ETIMEDOUT", 110),
    ("ECONNREFUSED", 111),
    ("EHOSTUNREACH", 113),
];

impl Errno {
    /// Names that a policy may use.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ERRNOS.iter().map(|(name, _)| *name)
    }

    /// The error of a name, as `EACCES`.
    pub fn named(name: &str) -> Option<Errno> {
        ERRNOS.iter().find(|(known, _)| *known == name).map(|(_, number)| Errno(*number))
    }

    /// The number that the call returns, positive.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// The name, as `EACCES`.
    pub fn name(self) -> &'static str {
        ERRNOS.iter().find(|(_, number)| *number == self.0).map_or("EACCES", |(name, _)| name)
    }
}

impl Default for Errno {
    /// EACCES: what connect(2) documents for a local firewall.
    fn default() -> Self {
        Errno(13)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stricter_actions_are_greater() {
        let deny = Action::Deny(Errno::default());
        assert!(Action::Allow < Action::Log && Action::Log < Action::Ask && Action::Ask < deny);
    }

    #[test]
    fn names_and_values_belong_together() {
        for name in Action::NAMES {
            assert_eq!(Action::named(name).unwrap().name(), name);
        }
        for name in Errno::names() {
            assert_eq!(Errno::named(name).unwrap().name(), name);
        }
        assert_eq!(Errno::named("ECONNREFUSED").unwrap().number(), 111);
        assert_eq!((Errno::named("ENOSYS"), Action::named("permit")), (None, None));
    }
}
