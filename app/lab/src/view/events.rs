//! What happens in a lab, second by second: a snapshot, then what is different.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{BehindView, LabState, LinkStatus, NodeStatus, SwitchStatus};

/// What is different since the event before it, or, as a snapshot, all that there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabEvent {
    /// Where it is, for the parameter `since`.
    pub id: String,
    /// Whether it tells of all.
    pub kind: EventKind,
    /// This snapshot stands for events that are not kept any more, or were of another lab process: what came and went
    /// meanwhile is not told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    /// Unix time in nanoseconds when the counters were read.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub time_ns: u64,
    /// The lab, where that is different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabFacts>,
    /// What is behind, all of it, where something began or ceased to be; its figures alone make no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Vec<BehindView>>,
    /// Which links and nodes lose packets, all of them, where some began to or have not for 10 s; `netloom why --losses` tells
    /// the causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losing: Option<Vec<LosingView>>,
    /// Nodes that are new, or of which something beside their counters is different.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeStatus>,
    /// The same for switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchStatus>,
    /// The same for links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkStatus>,
    /// What is not there any more.
    #[serde(default, skip_serializing_if = "Gone::is_nothing")]
    pub gone: Gone,
    /// Counters that are different.
    #[serde(default, skip_serializing_if = "Counters::is_nothing")]
    pub counters: Counters,
}

/// What an event tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// All that there is.
    Snapshot,
    /// What is different.
    #[default]
    Change,
}

impl EventKind {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::Snapshot => "snapshot",
            EventKind::Change => "change",
        }
    }
}

/// The lab itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabFacts {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: LabState,
    /// The lab process.
    pub pid: i32,
    /// Unix time in seconds when it came up.
    pub since: u64,
}

/// A place that loses packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LosingView {
    /// Of what kind it is.
    pub kind: LosingKind,
    /// Its name.
    pub name: String,
    /// The end that sends, of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Packets lost since then.
    pub packets: u64,
    /// Unix time in nanoseconds of the reading that showed the first.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub since_ns: u64,
}

/// What may lose packets.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LosingKind {
    /// A link, one way.
    #[default]
    Link,
    /// A node, in its network stack or at interfaces of its own.
    Node,
}

/// Names of what is not there any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gone {
    /// Nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<String>,
    /// Links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
}

impl Gone {
    fn is_nothing(&self) -> bool {
        *self == Gone::default()
    }
}

/// Counters, and what changes as often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counters {
    /// By node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeCounters>,
    /// By link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkCounters>,
}

impl Counters {
    fn is_nothing(&self) -> bool {
        self.nodes.is_empty() && self.links.is_empty()
    }
}

/// What a node uses. In a lab of more than 32 nodes, 32 of them are read each second, in turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounters {
    /// Its name.
    pub name: String,
    /// CPU time in nanoseconds.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub cpu_ns: Option<u64>,
    /// Memory in bytes now.
    pub memory: Option<u64>,
    /// Processes and threads now.
    pub processes: Option<u64>,
    /// Sockets now.
    pub sockets: Option<u64>,
    /// Packets lost at its interfaces and in its network stack.
    pub lost: u64,
}

impl NodeCounters {
    /// Those of a node.
    pub fn of(node: &NodeStatus) -> NodeCounters {
        NodeCounters {
            name: node.name.clone(),
            cpu_ns: node.cpu_ns,
            memory: node.memory,
            processes: node.processes,
            sockets: node.sockets,
            lost: node.drops.iter().map(|drop| drop.packets).sum(),
        }
    }
}

/// Totals of a link, by the end that sends: from the first end of its `ends` to the second, and back. All links are read each
/// second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkCounters {
    /// Its name.
    pub name: String,
    /// Frames that each end sent into it.
    pub packets: [u64; 2],
    /// Bytes of these.
    pub bytes: [u64; 2],
    /// Frames that it lost that way, whatever the cause.
    pub lost: [u64; 2],
}
