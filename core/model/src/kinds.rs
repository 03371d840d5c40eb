//! Kinds of switches and nodes. One file per kind: its type, its keys, their reader, its step of the plan.
//!
//! Code that depends on a kind matches one of these enums exhaustively, or calls one of their methods. So a
//! new kind does not compile until every place has an answer. Nothing here knows labs and plans: callers pass
//! what a kind needs of them.

pub(crate) mod bridge;
pub mod openflow;
pub mod router;
pub mod shm;
pub mod vm;

use std::path::PathBuf;

use netloom_config::{Path, Place, Report};
use serde::{Deserialize, Serialize};

use self::openflow::{DatapathId, FailMode, OpenflowSwitch, RawOpenflow, TlsFiles};
use self::router::Router;
use self::shm::{RawShm, ShmSwitch};
use self::vm::Machine;
use crate::file::Fields;
use crate::file::table::KindKeys;

/// The kind of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub enum SwitchKind {
    /// A bridge of the Linux kernel, in the lab's core namespace.
    #[default]
    Bridge,
    /// A switch in shared memory, which programs can join.
    Shm(ShmSwitch),
    /// A switch that controllers program.
    Openflow(OpenflowSwitch),
}

/// Where a switch's frames can be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedAt {
    /// At the interfaces of its ports.
    Ports,
    /// At a mirror port that gets copies.
    Mirror,
}

impl SwitchKind {
    /// The value of the file's key `kind`.
    pub fn word(&self) -> &'static str {
        match self {
            SwitchKind::Bridge => bridge::WORD,
            SwitchKind::Shm(_) => shm::WORD,
            SwitchKind::Openflow(_) => openflow::WORD,
        }
    }

    /// Maximum number of ports.
    pub fn most_ports(&self) -> usize {
        match self {
            SwitchKind::Bridge => bridge::MOST_PORTS,
            SwitchKind::Shm(_) => shm::MOST_PORTS,
            SwitchKind::Openflow(_) => openflow::MOST_PORTS,
        }
    }

    /// Whether it is an interface of the core namespace, to which its ports belong.
    pub fn is_bridge(&self) -> bool {
        match self {
            SwitchKind::Bridge => true,
            SwitchKind::Shm(_) | SwitchKind::Openflow(_) => false,
        }
    }

    /// Whether frames that come in at a port's interface in the core namespace are the switch's to forward.
    pub fn forwards_at_ports(&self) -> bool {
        match self {
            SwitchKind::Bridge | SwitchKind::Openflow(_) => true,
            SwitchKind::Shm(_) => false,
        }
    }

    /// Where its frames are captured.
    pub fn captured_at(&self) -> CapturedAt {
        match self {
            SwitchKind::Bridge | SwitchKind::Openflow(_) => CapturedAt::Ports,
            SwitchKind::Shm(_) => CapturedAt::Mirror,
        }
    }

    /// Whether programs can join it, and its ports can be changed while it runs.
    pub fn can_be_joined(&self) -> bool {
        match self {
            SwitchKind::Bridge | SwitchKind::Openflow(_) => false,
            SwitchKind::Shm(_) => true,
        }
    }

    /// Whether a process runs it, so that it can be made, queried and removed while its lab runs.
    pub fn is_process(&self) -> bool {
        match self {
            SwitchKind::Bridge => false,
            SwitchKind::Shm(_) | SwitchKind::Openflow(_) => true,
        }
    }

    /// Whether its ports have numbers in the plan.
    pub fn numbers_ports(&self) -> bool {
        matches!(self, SwitchKind::Openflow(_))
    }

    /// The text below its name in a picture; `bridge` is its interface's name if the kernel has it.
    pub fn caption(&self, bridge: &str) -> String {
        match self {
            SwitchKind::Bridge => format!("bridge {bridge}"),
            SwitchKind::Shm(_) => "shared memory".to_owned(),
            SwitchKind::Openflow(_) => "OpenFlow".to_owned(),
        }
    }

    /// The options of one in shared memory.
    pub fn as_shm(&self) -> Option<&ShmSwitch> {
        match self {
            SwitchKind::Bridge | SwitchKind::Openflow(_) => None,
            SwitchKind::Shm(options) => Some(options),
        }
    }

    /// The options of one that controllers program.
    pub fn as_openflow(&self) -> Option<&OpenflowSwitch> {
        match self {
            SwitchKind::Bridge | SwitchKind::Shm(_) => None,
            SwitchKind::Openflow(options) => Some(options),
        }
    }

    /// Makes one that controllers program obey its entries alone.
    pub(crate) fn secure(&mut self) {
        match self {
            SwitchKind::Bridge | SwitchKind::Shm(_) => {}
            SwitchKind::Openflow(options) => options.fail = FailMode::Secure,
        }
    }

    /// The files that one needs for TLS.
    pub fn tls_mut(&mut self) -> Option<&mut TlsFiles> {
        match self {
            SwitchKind::Bridge | SwitchKind::Shm(_) => None,
            SwitchKind::Openflow(options) => options.tls.as_mut(),
        }
    }

    /// Decides the number that the file may leave open, from a hash of the names of lab and switch.
    pub(crate) fn fill_in_number(&mut self, hash: impl FnOnce() -> u64) {
        match self {
            SwitchKind::Bridge | SwitchKind::Shm(_) => {}
            SwitchKind::Openflow(options) => options.fill_in_datapath(hash()),
        }
    }

    /// Replaces words by the addresses they stand for; `mac_of` returns the address of the node's interface
    /// at the other end of a port, by the port's name.
    pub(crate) fn fill_in_addresses(&mut self, mac_of: impl Fn(&str) -> Option<[u8; 6]>) {
        match self {
            SwitchKind::Bridge | SwitchKind::Openflow(_) => {}
            SwitchKind::Shm(options) => options.fill_in_own_addresses(mac_of),
        }
    }
}

/// The stored form of a kind in plans and states: a bridge has no key.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedSwitchKind))]
pub(crate) struct Stored {
    /// The options of a switch in shared memory; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shm: Option<ShmSwitch>,
    /// The options of an OpenFlow switch; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    openflow: Option<OpenflowSwitch>,
}

impl From<Stored> for SwitchKind {
    fn from(stored: Stored) -> SwitchKind {
        let openflow = stored.openflow.map(SwitchKind::Openflow);
        stored.shm.map(SwitchKind::Shm).or(openflow).unwrap_or_default()
    }
}

impl From<SwitchKind> for Stored {
    fn from(kind: SwitchKind) -> Stored {
        match kind {
            SwitchKind::Bridge => Stored { shm: None, openflow: None },
            SwitchKind::Shm(options) => Stored { shm: Some(options), openflow: None },
            SwitchKind::Openflow(options) => Stored { shm: None, openflow: Some(options) },
        }
    }
}

/// A switch's kind as read, before the whole file is known.
#[derive(Debug, Default)]
pub(crate) enum RawSwitchKind {
    #[default]
    Bridge,
    Shm(RawShm),
    Openflow(RawOpenflow),
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
            openflow::WORD => RawSwitchKind::Openflow(openflow::read::read(fields, path, report)),
            _ => RawSwitchKind::Bridge,
        }
    }

    /// Maximum number of links; `None` if [`finish`](RawSwitchKind::finish) counts them.
    pub(crate) fn most_links(&self) -> Option<usize> {
        match self {
            RawSwitchKind::Bridge => Some(bridge::MOST_PORTS),
            RawSwitchKind::Shm(_) => None,
            RawSwitchKind::Openflow(_) => Some(openflow::MOST_PORTS),
        }
    }

    /// Whether a link says which numbers its ports have.
    pub(crate) fn numbers_ports(&self) -> bool {
        match self {
            RawSwitchKind::Bridge | RawSwitchKind::Shm(_) => false,
            RawSwitchKind::Openflow(_) => true,
        }
    }

    /// The datapath id that the file gives, with its place.
    pub(crate) fn datapath(&self) -> Option<(DatapathId, Place)> {
        match self {
            RawSwitchKind::Bridge | RawSwitchKind::Shm(_) => None,
            RawSwitchKind::Openflow(raw) => raw.datapath(),
        }
    }

    /// Where the file says that it forwards by itself without a controller.
    pub(crate) fn standalone(&self) -> Option<Place> {
        match self {
            RawSwitchKind::Bridge | RawSwitchKind::Shm(_) => None,
            RawSwitchKind::Openflow(raw) => raw.standalone(),
        }
    }

    /// Whether it forwards by its entries alone, so that no frame goes round in a loop unless they say so.
    pub(crate) fn is_secure(&self) -> bool {
        match self {
            RawSwitchKind::Bridge | RawSwitchKind::Shm(_) => false,
            RawSwitchKind::Openflow(raw) => raw.is_secure(),
        }
    }

    /// Performs the checks that need the whole file.
    pub(crate) fn finish(&self, around: &Around<'_>, report: &mut Report) -> SwitchKind {
        match self {
            RawSwitchKind::Bridge => SwitchKind::Bridge,
            RawSwitchKind::Shm(raw) => SwitchKind::Shm(raw.finish(around, report)),
            RawSwitchKind::Openflow(raw) => SwitchKind::Openflow(raw.finish(around, report)),
        }
    }
}

/// What a switch's kind needs to know of the lab around it.
pub(crate) struct Around<'l> {
    /// The switch's name and place in the file.
    pub(crate) name: &'l str,
    pub(crate) place: Place,
    /// The ends of links on the switch.
    pub(crate) ends: &'l [PortEnd],
    /// Whether a node or switch of the lab has this name.
    pub(crate) is_taken: &'l dyn Fn(&str) -> bool,
    /// Whether a node of the lab has this name.
    pub(crate) is_node: &'l dyn Fn(&str) -> bool,
}

/// An end of a link on a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortEnd {
    /// The port's name.
    pub(crate) port: String,
    /// Its number, where ports have some.
    pub(crate) number: u32,
    /// The name of the node, switch or door at the other end.
    pub(crate) to: String,
    /// Whether that is a node.
    pub(crate) node: bool,
}

/// The kind of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NodeKind {
    /// Processes in namespaces of their own.
    #[default]
    Plain,
    /// A virtual machine.
    Vm(Box<Machine>),
    /// A node with a routing suite.
    Router(Box<Router>),
}

/// The word of the default kind of nodes, and its keys.
pub(crate) const PLAIN: KindKeys = KindKeys { kind: "plain", keys: &[] };

impl NodeKind {
    /// Whether it is the default, which need not be written.
    pub fn is_default(&self) -> bool {
        *self == NodeKind::default()
    }

    /// The options of a virtual machine.
    pub fn as_vm(&self) -> Option<&Machine> {
        match self {
            NodeKind::Plain | NodeKind::Router(_) => None,
            NodeKind::Vm(machine) => Some(machine),
        }
    }

    /// The options of a router.
    pub fn as_router(&self) -> Option<&Router> {
        match self {
            NodeKind::Plain | NodeKind::Vm(_) => None,
            NodeKind::Router(router) => Some(router),
        }
    }

    /// Whether its packets pass beside it.
    pub fn has_separate_plane(&self) -> bool {
        self.as_router().is_some_and(|router| router.separate)
    }

    /// The files of the host that it needs.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let (machine, router) = match self {
            NodeKind::Plain => (None, None),
            NodeKind::Vm(machine) => (Some(machine), None),
            NodeKind::Router(router) => (None, Some(router)),
        };
        let machine = machine.into_iter().flat_map(|machine| machine.paths_mut());
        machine.chain(router.into_iter().flat_map(|router| router.config.values_mut()))
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
        let words = crate::keys::SWITCH.kinds.iter().map(|kind| kind.kind);
        let openflow = SwitchKind::Openflow(OpenflowSwitch::default());
        let all = [SwitchKind::Bridge, SwitchKind::Shm(ShmSwitch::default()), openflow];
        assert!(words.eq(all.iter().map(SwitchKind::word)));
    }
}
