//! Kinds: what a switch is, and what a node is. One file a kind: its type, its keys, how they are read, and its step
//! of the plan.
//!
//! Whoever needs to know a kind matches one of these enums and names every kind, or asks one of their methods: so a
//! new kind does not compile until every place has an answer. Nothing here knows labs and plans: a kind is told what
//! it needs of them.

pub(crate) mod bridge;
pub mod shm;

use netloom_config::{Path, Place, Report};
use serde::{Deserialize, Serialize};

use self::shm::{RawShm, ShmSwitch};
use crate::file::Fields;

/// What a switch is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub enum SwitchKind {
    /// A bridge of the Linux kernel, in the lab's core namespace.
    #[default]
    Bridge,
    /// A switch in shared memory, which programs can join.
    Shm(ShmSwitch),
}

/// Where a switch can be listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedAt {
    /// At the interfaces that are its ports.
    Ports,
    /// At a port of its own that gets copies.
    Mirror,
}

impl SwitchKind {
    /// What stands in the file's key `kind`.
    pub fn word(&self) -> &'static str {
        match self {
            SwitchKind::Bridge => bridge::WORD,
            SwitchKind::Shm(_) => shm::WORD,
        }
    }

    /// Ports at most.
    pub fn most_ports(&self) -> usize {
        match self {
            SwitchKind::Bridge => bridge::MOST_PORTS,
            SwitchKind::Shm(_) => shm::MOST_PORTS,
        }
    }

    /// Whether the kernel has it and its ports: as interfaces of the core namespace.
    pub fn is_in_kernel(&self) -> bool {
        match self {
            SwitchKind::Bridge => true,
            SwitchKind::Shm(_) => false,
        }
    }

    /// Where its frames are captured.
    pub fn captured_at(&self) -> CapturedAt {
        match self {
            SwitchKind::Bridge => CapturedAt::Ports,
            SwitchKind::Shm(_) => CapturedAt::Mirror,
        }
    }

    /// Whether programs can join it, and its ports be asked and set while it runs.
    pub fn can_be_joined(&self) -> bool {
        match self {
            SwitchKind::Bridge => false,
            SwitchKind::Shm(_) => true,
        }
    }

    /// What stands below its name in a picture; `bridge` is its interface's name where the kernel has it.
    pub fn caption(&self, bridge: &str) -> String {
        match self {
            SwitchKind::Bridge => format!("bridge {bridge}"),
            SwitchKind::Shm(_) => "shared memory".to_owned(),
        }
    }

    /// The options of one in shared memory.
    pub fn as_shm(&self) -> Option<&ShmSwitch> {
        match self {
            SwitchKind::Bridge => None,
            SwitchKind::Shm(options) => Some(options),
        }
    }

    /// Puts addresses in the place of words that stand for them; `mac_of` knows those of the nodes' interfaces at the
    /// other ends of its ports, by the ports' names.
    pub(crate) fn fill_in_addresses(&mut self, mac_of: impl Fn(&str) -> Option<[u8; 6]>) {
        match self {
            SwitchKind::Bridge => {}
            SwitchKind::Shm(options) => options.fill_in_own_addresses(mac_of),
        }
    }
}

/// A kind as plans and states are stored: a bridge has no key.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shm: Option<ShmSwitch>,
}

impl From<Stored> for SwitchKind {
    fn from(stored: Stored) -> SwitchKind {
        stored.shm.map_or(SwitchKind::Bridge, SwitchKind::Shm)
    }
}

impl From<SwitchKind> for Stored {
    fn from(kind: SwitchKind) -> Stored {
        match kind {
            SwitchKind::Bridge => Stored { shm: None },
            SwitchKind::Shm(options) => Stored { shm: Some(options) },
        }
    }
}

/// What the file says of a switch's kind, before all of the file is known.
#[derive(Debug, Default)]
pub(crate) enum RawSwitchKind {
    #[default]
    Bridge,
    Shm(RawShm),
}

impl RawSwitchKind {
    /// Reads the keys of a kind; `word` is one of the table's.
    pub(crate) fn read(
        word: &str,
        fields: &Fields<'_>,
        path: &Path<'_>,
        report: &mut Report,
    ) -> RawSwitchKind {
        match word {
            shm::WORD => RawSwitchKind::Shm(shm::read(fields, path, report)),
            _ => RawSwitchKind::Bridge,
        }
    }

    /// Links at most; `None` where [`finish`](RawSwitchKind::finish) counts them.
    pub(crate) fn most_links(&self) -> Option<usize> {
        match self {
            RawSwitchKind::Bridge => Some(bridge::MOST_PORTS),
            RawSwitchKind::Shm(_) => None,
        }
    }

    /// Checks what takes the whole file.
    pub(crate) fn finish(&self, around: &Around<'_>, report: &mut Report) -> SwitchKind {
        match self {
            RawSwitchKind::Bridge => SwitchKind::Bridge,
            RawSwitchKind::Shm(raw) => SwitchKind::Shm(raw.finish(around, report)),
        }
    }
}

/// What a switch's kind is told of the lab around it.
pub(crate) struct Around<'l> {
    /// The switch's name and place in the file.
    pub(crate) name: &'l str,
    pub(crate) place: Place,
    /// The ends of links on the switch.
    pub(crate) ends: &'l [PortEnd],
    /// Whether a node or switch of the lab has this name.
    pub(crate) is_taken: &'l dyn Fn(&str) -> bool,
}

/// An end of a link on a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortEnd {
    /// What the port is called.
    pub(crate) port: String,
    /// The name of the node, switch or door at the other end.
    pub(crate) to: String,
    /// Whether that is a node.
    pub(crate) node: bool,
}

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Processes in namespaces of their own.
    #[default]
    Plain,
}

impl NodeKind {
    /// Whether it is one of those that need not be said.
    pub fn is_default(&self) -> bool {
        *self == NodeKind::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_stored_as_they_were_before_there_was_an_enum() {
        let shm = SwitchKind::Shm(ShmSwitch::default());
        let text = serde_json::to_string(&shm).unwrap();
        assert!(text.starts_with(r#"{"shm":{"mode":384"#), "{text}");
        assert_eq!(serde_json::from_str::<SwitchKind>(&text).unwrap(), shm);
        assert_eq!(serde_json::to_string(&SwitchKind::Bridge).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<SwitchKind>("{}").unwrap(), SwitchKind::Bridge);
    }

    #[test]
    fn every_kind_is_a_word_of_the_table() {
        let words = crate::parse::keys::SWITCH.kinds.iter().map(|kind| kind.kind);
        let all = [SwitchKind::Bridge, SwitchKind::Shm(ShmSwitch::default())];
        assert!(words.eq(all.iter().map(SwitchKind::word)));
    }
}
