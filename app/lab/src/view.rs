//! What can be seen of a running lab: plain data, served by the API and printed by the binary.
//!
//! Counters are totals since the object was made. What the machine cannot tell is `null`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A running lab in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabSummary {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: LabState,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of links.
    pub links: usize,
    /// The lab process, while there is one.
    pub pid: Option<i32>,
    /// Unix time in seconds when it came up.
    pub since: u64,
}

/// Where a lab stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabState {
    /// Being made.
    Starting,
    /// Every node lives.
    Up,
    /// Some node's init has ended; `up` of the same file makes it anew.
    Degraded,
    /// Making it was cut off by a kill; `down` removes what is left, and so does the next `up`.
    Broken,
    /// The lab process has ended; nodes and traffic go on; `up` of the same file adopts them.
    Orphaned,
}

/// All about a running lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabStatus {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: LabState,
    /// Identifies the content of its file.
    pub digest: String,
    /// The lab process.
    pub pid: i32,
    /// Unix time in seconds when it came up.
    pub since: u64,
    /// Unix time in nanoseconds when the counters below were read.
    pub read_ns: u64,
    /// It belongs to an ordinary user, in a user namespace.
    pub user: bool,
    /// In the order of the file.
    pub nodes: Vec<NodeStatus>,
    /// In the order of the file.
    pub switches: Vec<SwitchStatus>,
    /// In the order of the file.
    pub links: Vec<LinkStatus>,
}

/// All about a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Whether its init lives.
    pub alive: bool,
    /// Its init's process on the host; `null` when it has ended.
    pub pid: Option<i32>,
    /// Whether it routes.
    pub forwarding: bool,
    /// CPU time of all its processes in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Memory in bytes now.
    pub memory: Option<u64>,
    /// Processes and threads now, its init included.
    pub processes: Option<u64>,
    /// What it may use.
    pub limits: LimitsView,
    /// Its programs, in the order of the file.
    pub programs: Vec<ProgramView>,
    /// Its interfaces without `lo`.
    pub interfaces: Vec<InterfaceStatus>,
}

/// A node's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitsView {
    /// Thousandths of a CPU.
    pub cpu_milli: Option<u32>,
    /// Bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
}

/// How a program is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgramView {
    /// Its argument list.
    pub command: Vec<String>,
    /// Its process in the node, while it runs.
    pub pid: Option<i32>,
    /// How it ended last, as a shell shows it.
    pub exit_code: Option<i32>,
    /// How often it was started again.
    pub restarts: u32,
}

/// An interface of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InterfaceStatus {
    /// Its name in the node.
    pub name: String,
    /// The link it is an end of.
    pub link: String,
    /// As `02:…`.
    pub mac: String,
    /// Bytes.
    pub mtu: u32,
    /// Address/prefix, as planned.
    pub addresses: Vec<String>,
    /// Whether it can carry traffic; `null` when it is not there.
    pub up: Option<bool>,
    /// Totals; `null` when it is not there.
    pub traffic: Option<Traffic>,
}

/// Totals of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Traffic {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames lost at reception: dropped or broken.
    pub rx_lost: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Frames lost at sending: dropped or broken.
    pub tx_lost: u64,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SwitchStatus {
    /// Its name.
    pub name: String,
    /// `kernel`.
    pub kind: String,
    /// The bridge in the lab's core namespace.
    pub bridge: String,
    /// Names of the links that end in it.
    pub links: Vec<String>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Its ends: `NODE:IFACE`, `SWITCH`, `host:IFACE` or `internet`.
    pub ends: [String; 2],
    /// Whether both ends can carry traffic, as far as nodes' ends show.
    pub up: bool,
}

/// Who reaches whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reachability {
    /// The nodes, in the order of rows and columns.
    pub nodes: Vec<String>,
    /// A row a sender, a cell a receiver; the diagonal is `null`.
    pub families: Vec<Family>,
}

/// Reachability in one address family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Family {
    /// 4 or 6.
    pub version: u8,
    /// Round-trip time in microseconds; `null` where there is no answer, or nothing was asked
    /// because one of the two has no address of the family.
    pub rtt_us: Vec<Vec<Option<u32>>>,
    /// Pairs asked.
    pub asked: u64,
    /// Pairs that answered.
    pub answered: u64,
}

/// What making the lab whole again did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Repaired {
    /// Nodes that were made anew.
    pub nodes: Vec<String>,
}
