//! Shapes, for the document alone, of data whose crates know nothing of the API.
//!
//! They are never made. A test checks real plans and records against what is documented here.
#![allow(dead_code, reason = "only their shape is used")]

pub(crate) mod measure;
pub(crate) mod switch;

use utoipa::ToSchema;

/// Everything that a lab was made of.
#[derive(ToSchema)]
pub(crate) struct Plan {
    /// The lab's name.
    lab: String,
    /// Identifies the content of the lab file; changes of the running lab leave it as it was.
    digest: String,
    /// The id of the next node to be made.
    next_id: usize,
    /// In the order of the file, those made later after them; parents before their children.
    nodes: Vec<PlannedNode>,
    /// In the order of the file.
    switches: Vec<PlannedSwitch>,
    /// In the order of the file.
    links: Vec<PlannedLink>,
    /// The text of `/etc/hosts` in every node.
    hosts: String,
    /// How links that are made later get addresses and routes; not there in the view from inside a node.
    scheme: Option<Scheme>,
}

/// How addresses and routes of a lab are chosen.
#[derive(ToSchema)]
pub(crate) struct Scheme {
    /// Where automatic addresses come from.
    pool: PlannedPool,
    /// Whether routes are computed.
    routing: bool,
    /// Whether routers use all shortest paths of equal cost.
    ecmp: bool,
    /// Prefixes of switches' segments, by the switch's name.
    switches: std::collections::BTreeMap<String, Vec<String>>,
    /// Prefixes that hold the links of one node: its id, and the prefix.
    blocks: Vec<(usize, String)>,
    /// Ids of nodes whose routes are given by hand.
    routed_by_hand: Vec<usize>,
    /// The id of the next link to be made.
    next_link: usize,
}

/// Where automatic addresses come from; `null`: the lab has none of the family.
#[derive(ToSchema)]
pub(crate) struct PlannedPool {
    /// An IPv4 prefix.
    ipv4: Option<String>,
    /// An IPv6 prefix.
    ipv6: Option<String>,
}

/// A planned node.
#[derive(ToSchema)]
pub(crate) struct PlannedNode {
    /// Its identity for its life; never used again.
    id: usize,
    /// Its name; a child's is `PARENT/NAME`. The last part is its host name.
    name: String,
    /// The node it lives in: index into the plan's nodes.
    parent: Option<usize>,
    /// How many nodes may live in it, at any depth; `null`: it cannot have any.
    children: Option<u32>,
    /// Whether it routes.
    forwarding: bool,
    /// Limits on its processes.
    limits: PlannedLimits,
    /// What may be sent to it.
    protect: PlannedProtect,
    /// Whether the work of receiving counts as its own.
    charge_receive: bool,
    /// Whether its programs may do more than ordinary nodes' do; not there where they may not.
    privileged: Option<bool>,
    /// Root directory by hand.
    root: Option<String>,
    /// Bytes that may be written into its file system; not there where it is a quarter of the machine's memory.
    storage: Option<u64>,
    /// Commands, as argument lists, that must succeed in order before programs run; not there where there
    /// are none.
    setup: Option<Vec<Vec<String>>>,
    /// Programs to run.
    run: Vec<Program>,
    /// Environment: pairs of name and value.
    env: Vec<(String, String)>,
    /// Files to put in.
    files: Vec<File>,
    /// When it counts as ready.
    ready: Ready,
    /// Pairs of path below `/proc/sys/` and value. A path with `-` before it is written where the kernel
    /// takes it.
    sysctls: Vec<(String, String)>,
    /// In the order of the links.
    interfaces: Vec<Interface>,
    /// Routes to install, connected ones excluded.
    routes: Vec<Route>,
    /// Whether it reaches the host's network by NAT.
    internet: bool,
}

/// Limits of a planned node.
#[derive(ToSchema)]
pub(crate) struct PlannedLimits {
    /// Thousandths of a CPU.
    cpu_milli: Option<u32>,
    /// Bytes.
    memory: Option<u64>,
    /// Its part of the CPU when others want it too, against 100 for each of them.
    weight: Option<u32>,
    /// Processes and threads.
    processes: Option<u32>,
    /// Sockets of IPv4 and IPv6.
    sockets: Option<u32>,
}

/// A budget for what is sent to a node, over all its interfaces; `null` is no bound.
#[derive(ToSchema)]
pub(crate) struct PlannedProtect {
    /// Frames a second; an unsegmented one counts once.
    packets: Option<u64>,
    /// Bytes a second.
    bytes: Option<u64>,
}

/// A program of a node.
#[derive(ToSchema)]
pub(crate) struct Program {
    /// The argument list.
    command: Vec<String>,
    /// What is done when it ends.
    restart: Restart,
}

/// What is done when a program ends.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Restart {
    Never,
    OnFailure,
    Always,
}

/// A file of a node's own.
#[derive(ToSchema)]
pub(crate) struct File {
    /// Absolute path inside the node.
    path: String,
    /// What it holds.
    content: FileContent,
    /// Permission bits.
    mode: u32,
    /// Its owner, by name or number; not there where it is root.
    owner: Option<String>,
    /// Its group, by name or number; not there where it is root.
    group: Option<String>,
}

/// Where a file's bytes come from.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum FileContent {
    /// The text itself.
    Text(String),
    /// A path on the host.
    From(String),
}

/// When a node counts as ready: all must hold.
#[derive(ToSchema)]
pub(crate) struct Ready {
    /// Something listens on each of these TCP ports.
    tcp: Vec<u16>,
    /// This command exits with 0.
    exec: Option<Vec<String>>,
    /// Each of these paths exists in the node.
    files: Vec<String>,
    /// How long it may take.
    timeout: Duration,
}

/// A length of time.
#[derive(ToSchema)]
pub(crate) struct Duration {
    /// Whole seconds.
    secs: u64,
    /// The rest in nanoseconds.
    nanos: u32,
}

/// An interface of a planned node.
#[derive(ToSchema)]
pub(crate) struct Interface {
    /// Its name in the node.
    name: String,
    /// Its interface index in the node when it is made.
    index: u32,
    /// The link it is an end of: index into the plan's links; `null` for one that is not shown.
    link: Option<usize>,
    /// Six bytes.
    mac: [u8; 6],
    /// Bytes.
    mtu: u32,
    /// Address/prefix length.
    addresses: Vec<String>,
}

/// A route of a planned node.
#[derive(ToSchema)]
pub(crate) struct Route {
    /// Destination prefix.
    to: String,
    /// Next hop; `null` on the link itself.
    via: Option<String>,
    /// Leaves by this interface: index into the node's interfaces.
    interface: usize,
    /// Further next hops of equal cost, where there are any: each flow takes one of all.
    #[schema(required = false)]
    also: Vec<NextHop>,
}

/// One of several next hops of a route.
#[derive(ToSchema)]
pub(crate) struct NextHop {
    /// The router.
    via: String,
    /// Leaves by this interface: index into the node's interfaces.
    interface: usize,
}

/// A planned switch.
#[derive(ToSchema)]
pub(crate) struct PlannedSwitch {
    /// Its name in the lab.
    name: String,
    /// The bridge's interface index in the core namespace.
    index: u32,
    /// The bridge's name in the lab's core namespace.
    bridge: String,
    /// Six bytes.
    mac: [u8; 6],
    /// Bytes.
    mtu: u32,
    /// What can be chosen of a switch of kind `shm`; not there for a bridge of the kernel.
    shm: Option<PlannedShm>,
}

/// A planned shared-memory switch.
#[derive(ToSchema)]
pub(crate) struct PlannedShm {
    /// Who may join, as with a file: the mode of its socket.
    mode: u32,
    /// The group of its socket, by name or number.
    group: Option<String>,
    /// Bytes of the ring from the switch to each port.
    arena: u32,
    /// Seconds after which an address that is not heard of is forgotten.
    ageing: u32,
    /// Rules of ports, by name.
    ports: std::collections::BTreeMap<String, PlannedPort>,
    /// Mirror sessions.
    mirrors: Vec<PlannedMirror>,
}

/// The rules of a port of a planned switch.
#[derive(ToSchema)]
pub(crate) struct PlannedPort {
    /// Its number; the switch chooses when `null`.
    number: Option<u16>,
    /// The user who may have it, by name or number.
    owner: Option<String>,
    /// Its VLANs.
    vlan: Option<PlannedVlan>,
    /// The only addresses that may send from it; any when it is empty.
    lock: Vec<String>,
}

/// The VLANs of a port of a planned switch.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum PlannedVlan {
    /// Frames without tags belong to this one.
    Access(u16),
    /// Frames have tags.
    Trunk {
        /// The VLAN of frames without.
        native: Option<u16>,
        /// Those that may pass: `1-3,7`, `all`.
        allowed: String,
    },
}

/// A mirror session of a planned switch.
#[derive(ToSchema)]
pub(crate) struct PlannedMirror {
    /// Names of the ports looked at.
    from: Vec<String>,
    /// Which of their frames.
    direction: switch::MirrorDirection,
    /// Name of the port that gets the copies.
    to: String,
    /// Which of the frames: `vlan 7, tcp, port 80`; empty for all.
    filter: String,
}

/// A planned link.
#[derive(ToSchema)]
pub(crate) struct PlannedLink {
    /// Its identity for its life.
    id: usize,
    /// Its name.
    name: String,
    /// In the order of the file.
    ends: [PlannedEnd; 2],
    /// Bytes.
    mtu: u32,
    /// What it does to frames: first to those that the first end sends, then the second.
    impairments: [PlannedImpairments; 2],
}

/// What one direction of a link does to its frames. Shares are parts of 10^9.
#[derive(ToSchema)]
pub(crate) struct PlannedImpairments {
    /// Every packet is held for so long.
    delay: Duration,
    /// A random part of the delay.
    jitter: Option<Jitter>,
    /// Which packets are lost.
    loss: Option<Loss>,
    /// The share of packets that come twice.
    duplicate: u32,
    /// The share of packets that are not delayed and so overtake.
    reorder: u32,
    /// The share of packets in which one bit is turned over.
    corrupt: u32,
    /// Bits per second.
    rate: Option<u64>,
    /// What may wait for transmission.
    queue: Option<Queue>,
    /// Longer packets are lost.
    mtu: Option<u32>,
    /// Start of all random numbers; from the link's name when `null`.
    seed: Option<u64>,
}

/// A random part of the delay.
#[derive(ToSchema)]
pub(crate) struct Jitter {
    /// How far it goes.
    spread: Duration,
    /// Its form.
    distribution: Distribution,
    /// How much a packet's value depends on the one before it: parts of 10^9.
    correlation: u32,
}

/// The form of jitter.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Distribution {
    Normal,
    Pareto,
    Uniform,
}

/// Which packets are lost. Shares are parts of 10^9.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Loss {
    /// Each by chance.
    Random {
        /// How many.
        share: u32,
        /// How much a packet's fate depends on the one before it.
        correlation: u32,
    },
    /// The model of Gilbert and Elliott.
    Bursts {
        /// From good to bad.
        enter: u32,
        /// From bad to good.
        leave: u32,
        /// Loss in the bad state.
        bad: u32,
        /// Loss in the good state.
        good: u32,
    },
    /// Exactly these, over and over: `true` is lost.
    Pattern(Vec<bool>),
}

/// What may wait for transmission.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Queue {
    /// So many packets.
    Packets(u32),
    /// What is transmitted within so long.
    Time(Duration),
}

/// One end of a planned link.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum PlannedEnd {
    /// An interface of a node.
    Node {
        /// Index into the plan's nodes.
        node: usize,
        /// Index into the node's interfaces.
        interface: usize,
    },
    /// A port of a switch.
    Port {
        /// Index into the plan's switches.
        switch: usize,
        /// The port's name in the core namespace.
        name: String,
        /// Six bytes.
        mac: [u8; 6],
    },
    /// A bridge with this interface of the host.
    Host {
        /// The interface's name on the host.
        iface: String,
    },
    /// The host's side of a NAT door.
    Internet {
        /// The gateway's addresses with prefix length.
        addresses: Vec<String>,
    },
}

/// One line that a program wrote.
#[derive(ToSchema)]
pub(crate) struct Record {
    /// Unix time in nanoseconds.
    time_ns: u64,
    /// Number of the program in the node's `run:`.
    program: usize,
    /// What the program is called, where the node has several.
    name: Option<String>,
    /// What it wrote, without the line's end.
    text: String,
}
