//! Which clients may have which port: a pure decision without system calls.
//!
//! The kernel identifies the client (SO_PEERCRED); claims by the client itself are ignored.

use crate::rules::PortRules;

/// Identity of a connection's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) uid: u32,
    /// Its effective group; `None` if the kernel cannot tell it here.
    pub(crate) gid: Option<u32>,
}

/// The users that may join at all, as file permissions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    /// The user the switch runs as.
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// Only the write bits count: to join is to write.
    pub(crate) mode: u32,
}

impl Gate {
    /// Whether this client may send the requests of [`crate::control::requests`].
    pub(crate) fn manages(&self, who: Person) -> bool {
        who.uid == 0 || who.uid == self.owner
    }

    /// Whether this client may have any port.
    pub(crate) fn admits(&self, who: Person) -> bool {
        self.manages(who)
            || self.mode & 0o002 != 0
            || (self.mode & 0o020 != 0 && who.gid == Some(self.group))
    }

    /// Whether this client may have the port with these rules.
    pub(crate) fn gives(&self, who: Person, rules: &PortRules) -> bool {
        let anybody = rules.uid.is_none() && rules.gid.is_none();
        // Where the kernel cannot tell the group, no rule about one is met.
        let named = rules.uid == Some(who.uid) || (rules.gid.is_some() && rules.gid == who.gid);
        self.manages(who) || anybody || named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATE: Gate = Gate { owner: 1000, group: 100, mode: 0o600 };

    fn person(uid: u32, gid: u32) -> Person {
        Person { uid, gid: Some(gid) }
    }

    #[test]
    fn the_mode_says_who_may_join() {
        for (mode, group, other) in [
            (0o600, false, false),
            (0o660, true, false),
            (0o666, true, true),
            (0o644, false, false),
        ] {
            let gate = Gate { mode, ..GATE };
            assert!(gate.admits(person(0, 0)));
            assert!(gate.admits(person(1000, 5)));
            assert_eq!(gate.admits(person(1001, 100)), group, "{mode:o}");
            assert_eq!(gate.admits(person(1001, 5)), other, "{mode:o}");
        }
        let unknown = Person { uid: 1001, gid: None };
        assert!(!Gate { mode: 0o660, ..GATE }.admits(unknown));
    }

    #[test]
    fn a_port_can_have_an_owner() {
        let mut rules = PortRules { uid: Some(1001), ..PortRules::default() };
        assert!(GATE.gives(person(1001, 5), &rules));
        assert!(!GATE.gives(person(1002, 5), &rules));
        assert!(GATE.gives(person(1000, 5), &rules) && GATE.gives(person(0, 5), &rules));
        rules.gid = Some(7);
        assert!(GATE.gives(person(1002, 7), &rules) && GATE.gives(person(1001, 5), &rules));
        rules.uid = None;
        assert!(!GATE.gives(person(1001, 5), &rules));
        assert!(!GATE.gives(Person { uid: 1001, gid: None }, &rules));
        assert!(GATE.gives(person(1003, 5), &PortRules::default()));
    }
}
