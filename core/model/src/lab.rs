//! What a lab file says, after `for` is unrolled and every name is checked.
//!
//! A [`Lab`] is valid by construction of the parser: names are unique, every end of a link exists,
//! no interface is used twice. It holds only addresses given by hand; the plan adds the rest.

mod bind;
pub mod expect;
pub(crate) mod paths;
mod pin;
mod upkeep;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netloom_impair::Impairments;
use serde::{Deserialize, Serialize};

pub use self::bind::Bind;
use self::expect::Step;
pub use self::pin::Pin;
pub use self::upkeep::{Exec, Health};
use crate::forwarding::Forwarding;
use crate::ids::Slot;
use crate::image::ImageUse;
use crate::kinds::{NodeKind, SwitchKind};
use crate::published::Published;
pub use crate::restart::Restart;
use crate::signal::StopSignal;
use crate::slices::Slice;
use crate::users::Ids;

/// A whole lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lab {
    /// `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 63 bytes.
    pub name: String,
    /// Where automatic addresses are taken from.
    pub pool: Pool,
    /// Whether routers get shortest-path routes and hosts default routes (`routing: auto|none`, or `mode` in
    /// its map).
    pub routing: bool,
    /// Whether routers use all shortest paths of equal cost, per flow; else only the first.
    pub ecmp: bool,
    /// In the order of the file.
    pub nodes: Vec<Node>,
    /// In the order of the file.
    pub switches: Vec<Switch>,
    /// In the order of the file.
    pub links: Vec<Link>,
    /// Slices of OpenFlow switches, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// How all links are recorded while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// What it is expected to do, in the order of the file; no part of its plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Step>,
    /// Which hosts make what, where the lab is made by several, in the order of the file; no part of its plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<Pin>,
    /// Where nodes, switches and doors stand in pictures, by name, as `x-layout` fixes them: centres in pixels from the left and
    /// from the top. No part of its plan; names of what is not there are kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layout: BTreeMap<String, [i32; 2]>,
    /// Nodes that count as others of another `forwarding` when addresses are chosen, as when a running lab was first numbered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbered_as: BTreeMap<String, Forwarding>,
}

/// The prefixes that automatic addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedPool))]
pub struct Pool {
    /// Default `10.0.0.0/8`; at most /16. Absent when the lab has no IPv4 (`ipv4: none`).
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub ipv4: Option<Ipv4Net>,
    /// Default `fd00::/8`; at most /32. Absent when the lab has no IPv6 (`ipv6: none`).
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub ipv6: Option<Ipv6Net>,
    /// Which assignment of addresses from these: others than 0 are for labs whose addresses the host has.
    #[serde(default, skip_serializing_if = "is_first")]
    pub variant: u32,
}

impl Pool {
    /// The prefixes of a lab whose file names none.
    pub(crate) const fn usual() -> Pool {
        use std::net::{Ipv4Addr, Ipv6Addr};
        let ipv4 = Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8);
        let ipv6 = Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 8);
        Pool { ipv4: Some(ipv4), ipv6: Some(ipv6), variant: 0 }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(variant: &u32) -> bool {
    *variant == 0
}

/// How every frame of every link is kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedRecord))]
pub struct Record {
    /// Most bytes on disk.
    pub keep: u64,
}

impl Record {
    /// The least that may be kept.
    pub const LEAST: u64 = 4 << 20;
    /// What is kept where nothing is said.
    pub const USUAL: u64 = 2 << 30;
}

/// Omits a rare property from JSON where it is false.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_not(holds: &bool) -> bool {
    !holds
}

/// A node: an isolated network stack with its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What its plan repeats as it is.
    pub spec: Arc<NodeSpec>,
    /// The file says what it forwards, which may be nothing.
    #[serde(default, skip_serializing_if = "is_not")]
    pub forwarding_given: bool,
    /// Sysctls below `net.` set after the defaults, `net.ipv4.tcp_ecn` -> `1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Routes by hand; they replace the computed ones when `Some`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<RouteSpec>>,
}

impl From<NodeSpec> for Node {
    fn from(spec: NodeSpec) -> Node {
        Node { spec: Arc::new(spec), ..Node::default() }
    }
}

impl Deref for Node {
    type Target = NodeSpec;

    fn deref(&self) -> &NodeSpec {
        &self.spec
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut NodeSpec {
        Arc::make_mut(&mut self.spec)
    }
}

/// What the lab file says of a node, and its plan repeats as it is.
// Whatever lists the keys destructures this struct, so that a new one does not compile until it has its row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeSpec {
    /// Unique in the lab, among nodes and switches. A host name: letters, digits, `-`, `_`, `.`;
    /// any length up to 253. A child's is `PARENT/NAME`; the last part is its host name.
    pub name: String,
    /// Its kind.
    #[serde(default, skip_serializing_if = "NodeKind::is_default")]
    pub kind: NodeKind,
    /// The node it lives in, which comes before it.
    pub parent: Option<Slot>,
    /// Maximum number of nodes in it, at any depth; if absent, it can have and manage none.
    pub children: Option<u32>,
    /// Whether it routes, and packets of which families: then it gets routes and is a default gateway.
    pub forwarding: Forwarding,
    /// Its host name by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Addresses of its loopback interface beside the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub loopback: Vec<IpNet>,
    /// Limits on its processes together.
    pub limits: Limits,
    /// The budget of frames to it; more are dropped before they cost the node anything.
    pub protect: Protect,
    /// Whether receive work is charged to it: by default if it is protected or its CPU is limited.
    pub charge_receive: bool,
    /// Whether its programs may mount, trace, load BPF programs and more.
    #[serde(default, skip_serializing_if = "is_not")]
    pub privileged: bool,
    /// Its users and groups, the lab's or its parent's among them; if absent, the best that the machine gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Ids>,
    /// A directory to be the root of its file system; if absent, the host's under an overlay.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub root: Option<PathBuf>,
    /// The image that its root is made of instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageUse>,
    /// Bytes it may write into its file system; a quarter of the machine's memory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<u64>,
    /// Commands, as argument lists, that must succeed, in order, before programs run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Vec<String>>,
    /// Programs started in order once the network is up.
    pub run: Vec<Program>,
    /// Environment of its programs and of `exec`: pairs of name and value, sorted by name.
    pub env: Vec<(String, String)>,
    /// Files put into it before anything runs.
    pub files: Vec<FileSpec>,
    /// Files and directories of the host that it sees, those around others before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<Bind>,
    /// Ports of the host that lead to its programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Published>,
    /// When it counts as ready: all must hold.
    pub ready: Ready,
    /// Commands to do when all nodes of the lab are ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exec: Vec<Exec>,
    /// A check that repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

impl NodeSpec {
    /// A node with nothing but a name, and the users and groups of the one around it.
    pub(crate) fn fresh(name: &str, parent: Option<(Slot, Option<Ids>)>) -> NodeSpec {
        let ids = parent.and_then(|(_, ids)| ids);
        NodeSpec {
            name: name.to_owned(),
            parent: parent.map(|(slot, _)| slot),
            ids,
            ..NodeSpec::default()
        }
    }
}

/// The default of charging receive work to a node.
pub(crate) fn charges_by_default(limits: &Limits, protect: &Protect) -> bool {
    !protect.is_empty() || limits.cpu_milli.is_some()
}

/// Limits on a node's processes together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedLimits))]
pub struct Limits {
    /// Thousandths of one CPU: 500 is half a CPU, 2000 two. At least 10.
    pub cpu_milli: Option<u32>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Its weight when others compete for the CPU, where the default is 100; 1 to 10,000.
    pub weight: Option<u32>,
    /// Number of processes and threads.
    pub processes: Option<u32>,
    /// Number of sockets made by `socket()` for IPv4 and IPv6.
    pub sockets: Option<u32>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }
}

/// A budget of traffic to a node, over all its interfaces; without a value there is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedProtect))]
pub struct Protect {
    /// Frames a second; an unsegmented one (GSO) counts once.
    pub packets: Option<u64>,
    /// Bytes a second.
    pub bytes: Option<u64>,
    /// Whether the budget follows what the node keeps up with; `packets` is then its upper bound. `false` holds for the
    /// node's doors, too, whose budgets otherwise follow by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
}

impl Protect {
    /// Whether nothing is bounded.
    pub fn is_empty(&self) -> bool {
        self.packets.is_none() && self.bytes.is_none() && !self.follows()
    }

    /// Whether the budget follows what the node keeps up with.
    pub fn follows(&self) -> bool {
        self.auto == Some(true)
    }
}

/// A program that a node's init starts and watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Program {
    /// The argument list; never empty. No shell.
    pub command: Vec<String>,
    /// What to do when it ends.
    pub restart: Restart,
    /// Its user, by number or by a name in the node's own /etc/passwd; root when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its group, by number or by a name in the node's own /etc/group; its user's when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The directory in which it starts, an absolute path in the node; / when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Whether that directory is made if it is missing, as one of an image is.
    #[serde(default, skip_serializing_if = "is_not")]
    pub makes_workdir: bool,
    /// The signal that asks it to end.
    #[serde(default, skip_serializing_if = "StopSignal::is_usual")]
    pub stop_signal: StopSignal,
}

impl Program {
    /// A program that is started once, as root.
    pub fn once(command: Vec<String>) -> Program {
        Program { command, ..Program::default() }
    }

    /// Whether it has nothing but a command and what to do when it ends.
    pub(crate) fn is_plain(&self) -> bool {
        let plain = Program { restart: self.restart, ..Program::once(self.command.clone()) };
        *self == plain
    }
}

/// A file of a node's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = File))]
pub struct FileSpec {
    /// Absolute path inside the node, without `..`.
    pub path: String,
    /// Its content.
    pub content: FileContent,
    /// Permission bits, e.g. `0o644`.
    pub mode: u32,
    /// Its owner, by name (in the node's own passwd file) or number; root by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its group, by name (in the node's own group file) or number; root by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

impl FileSpec {
    /// The default permission bits of a file.
    pub const DEFAULT_MODE: u32 = 0o644;

    /// A file of root with default permission bits.
    pub fn new(path: impl Into<String>, content: FileContent) -> FileSpec {
        let (owner, group) = (None, None);
        FileSpec { path: path.into(), content, mode: Self::DEFAULT_MODE, owner, group }
    }
}

/// Where a file's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum FileContent {
    /// The text itself.
    Text(String),
    /// A path on the host, relative to the lab file.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    From(PathBuf),
}

/// When a node counts as ready: all must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ready {
    /// A TCP socket listens on each of these ports.
    pub tcp: Vec<u16>,
    /// This command exits with 0.
    pub exec: Option<Vec<String>>,
    /// Each of these paths exists in the node.
    pub files: Vec<String>,
    /// A virtual machine's console has shown this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<String>,
    /// The agent of a virtual machine's guest listens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
    /// The time limit. Default 30 s.
    #[serde(with = "netloom_form::duration")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Duration))]
    pub timeout: Duration,
}

impl Default for Ready {
    fn default() -> Self {
        Ready {
            tcp: vec![],
            exec: None,
            files: vec![],
            console: None,
            agent: false,
            timeout: Duration::from_secs(30),
        }
    }
}

/// A route by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// Destination; `None` is the default route of the next hop's family.
    pub to: Option<IpNet>,
    /// The next hop: an address, or the name of a neighbour node.
    pub via: Option<Via>,
    /// The outgoing interface, required when `via` is `None`.
    pub dev: Option<String>,
}

/// A next hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// Its address.
    Address(std::net::IpAddr),
    /// A node that shares a segment.
    Node(String),
}

/// A switch in the lab's core namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Unique in the lab, among nodes and switches.
    pub name: String,
    /// Prefixes for the segment (at most one a family), instead of automatic ones.
    pub subnets: Vec<IpNet>,
    /// MTU of the segment's interfaces; 1500 when `None`.
    pub mtu: Option<u32>,
    /// Whether those of its ports that close loops are blocked, as a bridge's can be.
    #[serde(default, skip_serializing_if = "is_not")]
    pub stp: bool,
    /// Its kind, with options.
    #[serde(flatten)]
    pub kind: SwitchKind,
}

/// A link between two ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// A name by hand; otherwise the plan makes `A:eth0--B:eth1`.
    pub name: Option<String>,
    /// Both ends, in the order of the file.
    pub ends: [End; 2],
    /// Addresses by hand, by end (index 0 or 1): at most one a family for each.
    pub addresses: [Vec<IpNet>; 2],
    /// Whether a node's end shall have no address, by end.
    pub bare: [bool; 2],
    /// Hardware addresses by hand, of nodes' ends; each occurs once in a lab.
    #[serde(default)]
    pub macs: [Option<[u8; 6]>; 2],
    /// Numbers by hand of the ports at switches that number theirs; each occurs once at a switch.
    #[serde(default)]
    pub numbers: [Option<u32>; 2],
    /// Prefixes for a node-node segment, instead of automatic ones.
    pub subnets: Vec<IpNet>,
    /// MTU of both ends; 1500 when `None`.
    pub mtu: Option<u32>,
    /// Its impairments: index 0 for frames that the first end sends, 1 for the second.
    pub impairments: [Impairments; 2],
}

impl Link {
    /// A link with nothing but ends.
    pub(crate) fn between(ends: [End; 2]) -> Link {
        Link {
            name: None,
            ends,
            addresses: [vec![], vec![]],
            bare: [false; 2],
            macs: [None; 2],
            numbers: [None; 2],
            subnets: vec![],
            mtu: None,
            impairments: [Impairments::default(), Impairments::default()],
        }
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// A node, by index into [`Lab::nodes`]; the plan picks `ethN` if no interface is named.
    Node {
        /// Index into [`Lab::nodes`].
        node: usize,
        /// The interface's name, at most 15 bytes.
        iface: Option<String>,
    },
    /// A switch, by index into [`Lab::switches`].
    Switch {
        /// Index into [`Lab::switches`].
        switch: usize,
    },
    /// An interface of the host, bridged into the lab. The other end is a node or a switch.
    Host {
        /// Its name on the host.
        iface: String,
    },
    /// The host's network by NAT. The other end is a node or a switch.
    Internet,
    /// Nothing: the other end is a node, whose interface is up and reaches nobody.
    Nowhere,
}
