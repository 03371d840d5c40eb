//! What can be seen of a running lab: plain data, served by the API and printed by the binary.
//!
//! Counters are totals since the object was made. What the machine cannot tell is `null`.

mod changes;
mod counts;
mod events;
mod fidelity;
mod packets;
mod reachability;
mod why;
mod wires;

use netloom_model::forwarding::Forwarding;
use netloom_model::users::Ids;
use netloom_node::log::Record;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use changes::{
    Applied, AppliedStep, Apply, Changed, LinkSettings, MoveInterface, NewLink, NewNode, NewSwitch,
    NodeSettings,
};
pub use counts::{LabCounts, LinkNumbers, NodeNumbers, TroubledNode};
pub use events::{
    Counters, EventKind, Gone, LabEvent, LabFacts, LinkCounters, LosingKind, LosingView,
    NodeCounters,
};
pub use fidelity::{
    BehindCause, BehindKind, BehindView, FidelityView, LatenessView, WaitsView, ms,
};
pub(crate) use fidelity::{dropped, sort as sort_behind, stolen, waited};
pub use packets::{AskPackets, FoundPackets, PacketSeen, link_of_question};
pub use reachability::{Family, PairFamily, PairReachability, Reachability};
pub use why::AskWhy;
pub use wires::{DirectionView, FateView, Fates, WireView};

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
    /// Why what is stored of it cannot be read: such a lab is broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// Where a lab stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabState {
    /// Being made.
    Starting,
    /// Every node lives, and no program has ended with an error.
    Up,
    /// Some node's init has ended, and `up` of the same file recreates it; or a program of some node has
    /// ended with an error.
    Degraded,
    /// It could not come up, and was kept by `up --keep`; `down` removes it.
    Failed,
    /// Making it was cut off by a kill, and `down` removes what is left, as does the next `up`; or what is stored of it
    /// cannot be read, and `down` takes it down.
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
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub read_ns: u64,
    /// Packets that the kernel dropped for all labs and the machine together, since the machine started: those that waited for
    /// a neighbour's address (`neighbour_queue`), and those whose neighbour found no room in the table
    /// (`neighbour_table`). Nothing tells whose they were.
    #[serde(default)]
    pub machine_drops: Vec<DropView>,
    /// What is late now, by [`BehindView`]; empty where the lab keeps up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<BehindView>,
    /// It belongs to an ordinary user, in a user namespace.
    pub user: bool,
    /// In the order of the file.
    pub nodes: Vec<NodeStatus>,
    /// In the order of the file.
    pub switches: Vec<SwitchStatus>,
    /// In the order of the file.
    pub links: Vec<LinkStatus>,
    /// Of a host's part of a lab over several hosts: what it knows of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across: Option<AcrossView>,
    /// Manual changes to living nodes and switches made without netloom, an object a line, as `netloom apply` shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<String>,
}

/// What a host's part of a lab over several hosts knows of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcrossView {
    /// The host.
    pub host: String,
    /// The hosts that its links lead to.
    pub peers: Vec<PeerView>,
    /// Frames for the lab that were dropped, since another machine sent them than the link's other host.
    pub foreign_frames: u64,
}

/// Another host of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerView {
    /// Its name.
    pub host: String,
    /// It answers; if not, links to it have no carrier.
    pub answers: bool,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It is being made, or waits to be ready.
    Starting,
    /// It lives, and no program of it has ended with an error.
    #[default]
    Up,
    /// A program of it has ended with an error and is not started again, or an interface of it is lost.
    Degraded,
    /// It could not become ready.
    Failed,
    /// Its init has ended.
    Dead,
}

/// All about a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Whether its init lives.
    pub alive: bool,
    /// Where it stands.
    #[serde(default)]
    pub state: NodeState,
    /// What it waits for, why it has failed, or which program ended how; `null` where it is up.
    #[serde(default)]
    pub reason: Option<String>,
    /// Its init's process on the host; `null` when it has ended.
    pub pid: Option<i32>,
    /// Whether it routes, and packets of which families.
    pub forwarding: Forwarding,
    /// Whether its programs may mount, trace, load BPF programs and more.
    #[serde(default)]
    pub privileged: bool,
    /// Its users and groups; `null` for a virtual machine, whose guest has its own.
    #[serde(default)]
    pub ids: Option<Ids>,
    /// The node it lives in.
    pub parent: Option<String>,
    /// How many nodes live in it, at any depth, and how many may; `null`: it cannot have any.
    pub children: Option<ChildrenView>,
    /// CPU time in nanoseconds: of all its processes, and of receiving where that is charged to it.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub cpu_ns: Option<u64>,
    /// The part of it that its processes spent themselves; with `cpu_system_ns` and `cpu_receive_ns` it is all of it.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub cpu_user_ns: Option<u64>,
    /// The part that the kernel spent for them.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub cpu_system_ns: Option<u64>,
    /// The part that kernel threads spent on receiving datagrams for it, not TCP; `null` where that is not charged.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub cpu_receive_ns: Option<u64>,
    /// Mean number of runnable and waiting processes over the last minute, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Memory in bytes now.
    pub memory: Option<u64>,
    /// Processes and threads now, its init included.
    pub processes: Option<u64>,
    /// Sockets of all kinds in its network now.
    pub sockets: Option<u64>,
    /// Sockets that count for its limit, now; `null` where there is none.
    pub sockets_counted: Option<u64>,
    /// Sockets that were refused by its limit.
    pub sockets_refused: Option<u64>,
    /// What it may use.
    pub limits: LimitsView,
    /// What may be sent to it, and what came; `null` where it is not protected.
    pub protect: Option<ProtectView>,
    /// Frames lost at its interfaces and in its network stack, by cause.
    pub drops: Vec<DropView>,
    /// Its addresses with their prefixes as its kernel has them now, on interfaces of its own making, too,
    /// without those of loopback and link-local ones; the first of each family is what its name stands
    /// for. Of a dead node: those planned.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Its programs, in the order of the file.
    pub programs: Vec<ProgramView>,
    /// The results of its check that repeats; `null` where it has none, or is not ready yet.
    #[serde(default)]
    pub health: Option<HealthView>,
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
    /// Its part of the CPU when others want it too, against 100.
    pub weight: Option<u32>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// Sockets for IPv4 and IPv6 made by `socket()`.
    pub sockets: Option<u32>,
}

/// Nodes inside a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChildrenView {
    /// How many there are, at any depth.
    pub count: usize,
    /// How many there may be.
    pub limit: u32,
}

/// Flood protection of a node: budget, and totals since it was set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProtectView {
    /// Frames a second.
    pub packets: Option<u64>,
    /// Bytes a second.
    pub bytes: Option<u64>,
    /// Whether the budget follows what the node keeps up with.
    #[serde(default)]
    pub auto: bool,
    /// Frames a second that it is now, where it follows; `null` while the node keeps up with everything.
    #[serde(default)]
    pub auto_packets: Option<u64>,
    /// Frames that came through.
    pub passed_packets: u64,
    /// Bytes that came through.
    pub passed_bytes: u64,
    /// Frames dropped.
    pub dropped_packets: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// The same by sender, as far as the first hop shows.
    pub senders: Vec<SenderView>,
}

/// What one sender sent to a protected node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SenderView {
    /// `NODE:IFACE`, or another end of a link.
    pub sender: String,
    /// Frames that came through.
    pub passed_packets: u64,
    /// Frames dropped.
    pub dropped_packets: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
}

/// Frames lost, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DropView {
    /// `protect`; at its interfaces `queue` (its receive queue was full), `rx`, `tx`; `own_interfaces` (those
    /// that the lab did not make: taps of a guest, tunnels); `discipline` (of its own, set with
    /// tc); and those of its network stack: `socket_buffer`, `socket_memory`, `send_buffer`, `listen_queue`,
    /// `tcp_backlog`, `checksum`, `closed_port`, `bad_header`, `bad_address`, `reverse_path`, `no_route`,
    /// `unknown_protocol`, `discarded`, `reassembly`, `too_long`, `conntrack`.
    #[serde(with = "netloom_form::words")]
    pub cause: String,
    /// Frames.
    pub packets: u64,
}

/// Frames that a link lost in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LossView {
    /// The end that sent, as in the link's `ends`.
    pub from: String,
    /// `interface`: between two interfaces, since a queue was full, the frame too long or the other end down;
    /// `wire: CAUSE`; `switch: CAUSE`: at the link's port of a shared-memory switch, both directions together; `way_out`: the program that passes
    /// what leaves an ordinary user's lab did not read it, told at the lab's first such link for all.
    #[serde(with = "netloom_form::words")]
    pub cause: String,
    /// Frames.
    pub packets: u64,
}

/// The results of a node's check that repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthView {
    /// `starting`: there is no good check yet, and not too many bad ones; `healthy`; `unhealthy`.
    pub state: String,
    /// How many checks have failed in a row.
    pub failures: u32,
    /// Why the last one did.
    pub reason: Option<String>,
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
    /// The signal that ended it, where one did.
    #[serde(default)]
    pub signal: Option<i32>,
    /// It has ended and is not started again.
    #[serde(default)]
    pub ended: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// When it is started again, in milliseconds; `null` where it runs or has ended for good.
    #[serde(default)]
    pub restart_in_ms: Option<u64>,
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
    /// Address/prefix as the kernel has them now, without link-local ones; as planned where the node is
    /// dead.
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
    /// Frames lost at reception: those for which its receive queue had no room, as the switch's port or the door before it counts them.
    /// Between two nodes these count as `tx_lost` of the other one. Frames that no protocol of the node takes are not lost.
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
    /// `kernel`, `shm` (in shared memory) or `openflow`.
    pub kind: String,
    /// The bridge in the lab's core namespace.
    pub bridge: String,
    /// Names of the links that end in it.
    pub links: Vec<String>,
    /// What an OpenFlow switch does now; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openflow: Option<OpenflowStatus>,
    /// The folder by which clients of classic VDE join a switch in shared memory; absent where it offers none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vde: Option<String>,
}

/// What an OpenFlow switch does now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenflowStatus {
    /// The UNIX socket that speaks OpenFlow.
    pub socket: String,
    /// Whether its process lives and answers.
    pub running: bool,
    /// Its datapath id: 16 hexadecimal digits.
    pub datapath: String,
    /// What moves its frames: `packet_sockets`, `tcx`, `clsact`.
    #[serde(default, with = "netloom_form::words")]
    pub plane: Option<String>,
    /// Why a faster one is not used.
    pub slower: Option<String>,
    /// Flow entries.
    pub entries: u64,
    /// Whether it forwards like an ordinary switch now, because no controller is connected.
    pub standalone: bool,
    /// Its controllers.
    pub controllers: Vec<OpenflowController>,
    /// Its slices, which have controllers of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<OpenflowSlice>,
    /// Why it does not answer, or what went wrong last.
    pub trouble: Option<String>,
}

/// A slice of an OpenFlow switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenflowSlice {
    /// Its name.
    pub slice: String,
    /// Rules that it has.
    pub rules: u64,
    /// Entries of the switch that these take.
    pub entries: u64,
    /// Its controllers.
    pub controllers: Vec<OpenflowController>,
}

/// A controller of an OpenFlow switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenflowController {
    /// As in the lab file: `node:c0:6653`.
    pub controller: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Why it is not.
    pub reason: Option<String>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Its ends: `NODE:IFACE`, `SWITCH`, `host:IFACE`, `internet` or `nowhere`.
    pub ends: [String; 2],
    /// Whether both ends can carry traffic, as far as nodes' ends show, and its wire runs, if it
    /// needs one.
    pub up: bool,
    /// Whether it was taken down, as if its cable were pulled.
    #[serde(default)]
    pub down: bool,
    /// The wire in it; `null` when nothing is impaired, so that there is none.
    pub wire: Option<WireView>,
    /// Frames that it lost, by sending end and cause, without causes that lost nothing.
    #[serde(default)]
    pub lost: Vec<LossView>,
}

/// A lab that was taken down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// Its name.
    pub lab: String,
}

/// What is recorded of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Noting {
    /// The link.
    pub link: String,
    /// Fates kept in each direction; 0 means that nothing is recorded.
    pub keep: usize,
}

/// A line of a program's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The line.
    #[serde(flatten)]
    pub record: Record,
    /// Where it is, for the parameter `after`.
    #[serde(default)]
    pub cursor: String,
}

impl From<Record> for LogLine {
    fn from(record: Record) -> LogLine {
        LogLine { cursor: record.time_ns.to_string(), record }
    }
}

/// What making the lab whole again did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Repaired {
    /// Nodes that were recreated.
    pub nodes: Vec<String>,
    /// Programs of theirs that ended with an error: node, program, how, and its last lines.
    #[serde(default)]
    pub troubles: Vec<String>,
    /// Commands of `exec` in them that failed and may, in the same form.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Manual changes to living nodes and switches made without netloom, an object a line. They were reverted, unless they were to be kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<String>,
}

impl ProgramView {
    /// Whether it has ended with an error and is not started again.
    pub fn has_failed(&self) -> bool {
        self.ended && self.exit_code != Some(0)
    }

    /// How it ended, as `exited 1` or `ended by signal 9`; `None` when it never did.
    pub fn ending(&self) -> Option<String> {
        match (self.signal, self.exit_code) {
            (Some(signal), _) => Some(format!("ended by signal {signal}")),
            (None, code) => code.map(|code| format!("exited {code}")),
        }
    }
}
