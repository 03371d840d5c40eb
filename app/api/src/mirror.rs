//! Schemas, for the document only, of data whose crates do not know the API.
//!
//! They are never instantiated. A test checks real plans and records against them.
#![allow(dead_code, reason = "only their shape is used")]

pub(crate) mod measure;
pub(crate) mod switch;

use utoipa::ToSchema;

/// The plan of a lab.
#[derive(ToSchema)]
pub(crate) struct Plan {
    /// The lab's name.
    lab: String,
    /// Identifies the content of the lab file; changes of the running lab do not affect it.
    digest: String,
    /// The id of the next node.
    next_id: usize,
    /// In file order, later nodes after them; parents before their children.
    nodes: Vec<PlannedNode>,
    /// In file order.
    switches: Vec<PlannedSwitch>,
    /// In file order.
    links: Vec<PlannedLink>,
    /// The text of `/etc/hosts` in every node.
    hosts: String,
    /// How later links get addresses and routes; absent in the view from inside a node.
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
    /// Prefixes that contain the links of one node: its id, and the prefix.
    blocks: Vec<(usize, String)>,
    /// Ids of nodes whose routes are set manually.
    routed_by_hand: Vec<usize>,
    /// The id of the next link.
    next_link: usize,
}

/// Where automatic addresses come from; `null` if the lab has none of the family.
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
    /// Its permanent id, never reused.
    id: usize,
    /// Its name; a child's is `PARENT/NAME`. The last part is its host name.
    name: String,
    /// The node that contains it: index into the plan's nodes.
    parent: Option<usize>,
    /// Maximum number of nodes inside it, at any depth; `null` if it cannot have any.
    children: Option<u32>,
    /// Whether it forwards packets.
    forwarding: bool,
    /// Limits on its processes.
    limits: PlannedLimits,
    /// Limits on traffic sent to it.
    protect: PlannedProtect,
    /// Whether receive work is charged to it.
    charge_receive: bool,
    /// Whether its programs have more capabilities than in ordinary nodes; absent if not.
    privileged: Option<bool>,
    /// Its own root directory.
    root: Option<String>,
    /// Limit in bytes on writes to its file system; absent for the default, a quarter of the machine's
    /// memory.
    storage: Option<u64>,
    /// Commands, as argument lists, that must succeed in order before programs start; absent if there are
    /// none.
    setup: Option<Vec<Vec<String>>>,
    /// Programs to run.
    run: Vec<Program>,
    /// Environment: pairs of name and value.
    env: Vec<(String, String)>,
    /// Files to place.
    files: Vec<File>,
    /// Conditions for readiness.
    ready: Ready,
    /// Pairs of path below `/proc/sys/` and value. A `-` before the path makes a refusal by the kernel
    /// acceptable.
    sysctls: Vec<(String, String)>,
    /// In link order.
    interfaces: Vec<Interface>,
    /// Routes to install, except connected ones.
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
    /// CPU weight under contention; the default of each node is 100.
    weight: Option<u32>,
    /// Processes and threads.
    processes: Option<u32>,
    /// IPv4 and IPv6 sockets.
    sockets: Option<u32>,
}

/// A budget for traffic sent to a node, over all its interfaces; `null` means no limit.
#[derive(ToSchema)]
pub(crate) struct PlannedProtect {
    /// Frames per second; a super-frame counts once.
    packets: Option<u64>,
    /// Bytes per second.
    bytes: Option<u64>,
}

/// A program of a node.
#[derive(ToSchema)]
pub(crate) struct Program {
    /// The argument list.
    command: Vec<String>,
    /// What happens when it ends.
    restart: Restart,
}

/// What happens when a program ends.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Restart {
    Never,
    OnFailure,
    Always,
}

/// A node's own file.
#[derive(ToSchema)]
pub(crate) struct File {
    /// Absolute path inside the node.
    path: String,
    /// Its content.
    content: FileContent,
    /// Permission bits.
    mode: u32,
    /// Its owner, by name or number; absent for root.
    owner: Option<String>,
    /// Its group, by name or number; absent for root.
    group: Option<String>,
}

/// Source of a file's content.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum FileContent {
    /// The text itself.
    Text(String),
    /// A path on the host.
    From(String),
}

/// Conditions for a node's readiness: all must hold.
#[derive(ToSchema)]
pub(crate) struct Ready {
    /// Each of these TCP ports has a listener.
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
    /// The remaining nanoseconds.
    nanos: u32,
}

/// An interface of a planned node.
#[derive(ToSchema)]
pub(crate) struct Interface {
    /// Its name in the node.
    name: String,
    /// Its initial interface index in the node.
    index: u32,
    /// Its link: index into the plan's links; `null` if the link is not visible.
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
    /// Next hop; `null` for a route on the link itself.
    via: Option<String>,
    /// Outgoing interface: index into the node's interfaces.
    interface: usize,
    /// Further next hops of equal cost, if any: each flow takes one of all.
    #[schema(required = false)]
    also: Vec<NextHop>,
}

/// One of several next hops of a route.
#[derive(ToSchema)]
pub(crate) struct NextHop {
    /// The router.
    via: String,
    /// Outgoing interface: index into the node's interfaces.
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
    /// Settings of a switch of kind `shm`; absent for a kernel bridge.
    shm: Option<PlannedShm>,
}

/// A planned shared-memory switch.
#[derive(ToSchema)]
pub(crate) struct PlannedShm {
    /// Who may join, as file permissions: the mode of its socket.
    mode: u32,
    /// The group of its socket, by name or number.
    group: Option<String>,
    /// Bytes of the ring from the switch to each port.
    arena: u32,
    /// Seconds after which a silent address is forgotten.
    ageing: u32,
    /// Rules of ports, by name.
    ports: std::collections::BTreeMap<String, PlannedPort>,
    /// Mirror sessions.
    mirrors: Vec<PlannedMirror>,
}

/// The rules of a port of a planned switch.
#[derive(ToSchema)]
pub(crate) struct PlannedPort {
    /// Its number; `null` lets the switch choose.
    number: Option<u16>,
    /// The user who may have it, by name or number.
    owner: Option<String>,
    /// Its VLANs.
    vlan: Option<PlannedVlan>,
    /// The only source addresses allowed on it; empty allows any.
    lock: Vec<String>,
}

/// The VLANs of a port of a planned switch.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum PlannedVlan {
    /// Untagged frames, all in this VLAN.
    Access(u16),
    /// Tagged frames.
    Trunk {
        /// The VLAN of untagged frames.
        native: Option<u16>,
        /// The VLANs allowed with a tag: `1-3,7`, `all`.
        allowed: String,
    },
}

/// A mirror session of a planned switch.
#[derive(ToSchema)]
pub(crate) struct PlannedMirror {
    /// Names of the mirrored ports.
    from: Vec<String>,
    /// The direction of their frames.
    direction: switch::MirrorDirection,
    /// Name of the port that receives the copies.
    to: String,
    /// The frames to copy: `vlan 7, tcp, port 80`; empty for all.
    filter: String,
}

/// A planned link.
#[derive(ToSchema)]
pub(crate) struct PlannedLink {
    /// Its permanent id.
    id: usize,
    /// Its name.
    name: String,
    /// In file order.
    ends: [PlannedEnd; 2],
    /// Bytes.
    mtu: u32,
    /// Its impairments: first of frames from the first end, then of frames from the second.
    impairments: [PlannedImpairments; 2],
}

/// Impairments of one direction of a link. Shares are parts of 10^9.
#[derive(ToSchema)]
pub(crate) struct PlannedImpairments {
    /// Delay of every packet.
    delay: Duration,
    /// A random part of the delay.
    jitter: Option<Jitter>,
    /// Which packets are lost.
    loss: Option<Loss>,
    /// The share of duplicated packets.
    duplicate: u32,
    /// The share of packets that skip the delay and so overtake others.
    reorder: u32,
    /// The share of packets with one bit flipped.
    corrupt: u32,
    /// Bits per second.
    rate: Option<u64>,
    /// Limit of the transmission queue.
    queue: Option<Queue>,
    /// Largest packet; larger ones are lost.
    mtu: Option<u32>,
    /// Seed of all random numbers; derived from the link's name when `null`.
    seed: Option<u64>,
}

/// A random part of the delay.
#[derive(ToSchema)]
pub(crate) struct Jitter {
    /// Its amplitude.
    spread: Duration,
    /// Its distribution.
    distribution: Distribution,
    /// Correlation of a packet's value with the previous one: parts of 10^9.
    correlation: u32,
}

/// The distribution of jitter.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Distribution {
    Normal,
    Pareto,
    Uniform,
}

/// Packet loss. Shares are parts of 10^9.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Loss {
    /// Independent random loss.
    Random {
        /// The share of lost packets.
        share: u32,
        /// Correlation of a packet's fate with the previous one.
        correlation: u32,
    },
    /// The Gilbert-Elliott model.
    Bursts {
        /// Probability of the transition from good to bad.
        enter: u32,
        /// Probability of the transition from bad to good.
        leave: u32,
        /// Loss in the bad state.
        bad: u32,
        /// Loss in the good state.
        good: u32,
    },
    /// A repeated pattern: `true` is lost.
    Pattern(Vec<bool>),
}

/// Limit of the transmission queue.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Queue {
    /// In packets.
    Packets(u32),
    /// In transmission time.
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

/// One line of a program's output.
#[derive(ToSchema)]
pub(crate) struct Record {
    /// Unix time in nanoseconds.
    time_ns: u64,
    /// Number of the program in the node's `run:`.
    program: usize,
    /// The program's name, if the node has several programs.
    name: Option<String>,
    /// The output without the line ending.
    text: String,
}
