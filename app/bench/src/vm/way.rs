//! The ways in which two guests are joined.

use super::guest::{QEMU, UML};

/// What joins the machines, and what runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    VhostUser,
    Plugin,
    Vde,
    Tap,
    Vswitch,
    UmlOwn,
    UmlVde,
}

impl Way {
    pub(super) const ALL: [Way; 7] =
        [Way::VhostUser, Way::Plugin, Way::Vde, Way::Tap, Way::Vswitch, Way::UmlOwn, Way::UmlVde];

    pub(super) fn title(self) -> &'static str {
        match self {
            Way::VhostUser => "netloom, vhost-user",
            Way::Plugin => "netloom, VDE plug-in",
            Way::UmlOwn => "netloom, shm switch",
            Way::Vde | Way::UmlVde => "vde_switch",
            Way::Tap => "tap + bridge",
            Way::Vswitch => "Open vSwitch (userspace)",
        }
    }

    pub(super) fn what(self) -> String {
        format!("TCP between 2 guests, {}", self.guests())
    }

    /// What runs the guests.
    pub(super) fn guests(self) -> &'static str {
        if self.is_uml() { "User-mode Linux" } else { "QEMU" }
    }

    /// Of its lab and files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::VhostUser => "vhost",
            Way::Plugin => "plugin",
            Way::Vde => "vde",
            Way::Tap => "tap",
            Way::Vswitch => "ovs",
            Way::UmlOwn => "uml",
            Way::UmlVde => "umlvde",
        }
    }

    /// Whether the switch is netloom's.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Way::VhostUser | Way::Plugin | Way::UmlOwn)
    }

    pub(super) fn is_uml(self) -> bool {
        matches!(self, Way::UmlOwn | Way::UmlVde)
    }

    /// The programs that must be installed.
    pub(super) fn programs(self) -> &'static [&'static str] {
        match self {
            Way::VhostUser | Way::Plugin | Way::Tap => &[QEMU, "setpriv"],
            Way::Vde => &[QEMU, "setpriv", "vde_switch"],
            Way::Vswitch => &[QEMU, "setpriv", "ovs-vswitchd"],
            Way::UmlOwn => &[UML],
            Way::UmlVde => &[UML, "vde_switch"],
        }
    }

    /// What runs the guests, with its accelerator.
    pub(super) fn machine(self, qemu: &str, kernel: &str, uml: &str) -> String {
        match self.is_uml() {
            true => format!("User-mode Linux {uml}, without accelerator"),
            false => format!("{qemu}, TCG, Linux {kernel}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_told_apart() {
        let mut all = Way::ALL.map(|way| (way.what(), way.title()));
        let mut names = Way::ALL.map(Way::name);
        all.sort_unstable();
        names.sort_unstable();
        assert!(all.windows(2).all(|two| two[0] != two[1]), "{all:?}");
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    }

    #[test]
    fn a_row_names_its_accelerator() {
        assert_eq!(Way::Tap.machine("QEMU 7", "6.1", "6.2"), "QEMU 7, TCG, Linux 6.1");
        assert!(Way::UmlVde.machine("", "", "6.2").contains("6.2, without accelerator"));
    }
}
