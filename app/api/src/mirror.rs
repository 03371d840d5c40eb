//! Shapes, for the document alone, of data whose crates know nothing of the API.
//!
//! They are never made. A test checks real plans and records against what is documented here.
#![allow(dead_code, reason = "only their shape is used")]

use utoipa::ToSchema;

/// Everything that a lab was made of.
#[derive(ToSchema)]
pub(crate) struct Plan {
    /// The lab's name.
    lab: String,
    /// Identifies the plan's content: equal plans have equal digests.
    digest: String,
    /// In the order of the file.
    nodes: Vec<PlannedNode>,
    /// In the order of the file.
    switches: Vec<PlannedSwitch>,
    /// In the order of the file.
    links: Vec<PlannedLink>,
    /// The text of `/etc/hosts` in every node.
    hosts: String,
}

/// A planned node.
#[derive(ToSchema)]
pub(crate) struct PlannedNode {
    /// Its name, and its host name.
    name: String,
    /// Whether it routes.
    forwarding: bool,
    /// Limits on its processes.
    limits: PlannedLimits,
    /// Root directory by hand.
    root: Option<String>,
    /// Programs to run.
    run: Vec<Program>,
    /// Environment: pairs of name and value.
    env: Vec<(String, String)>,
    /// Files to put in.
    files: Vec<File>,
    /// When it counts as ready.
    ready: Ready,
    /// Pairs of path below `/proc/sys/` and value.
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
    /// Processes and threads.
    processes: Option<u32>,
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
    /// The link it is an end of: index into the plan's links.
    link: usize,
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
}

/// A planned switch.
#[derive(ToSchema)]
pub(crate) struct PlannedSwitch {
    /// Its name in the lab.
    name: String,
    /// The bridge's name in the lab's core namespace.
    bridge: String,
    /// Six bytes.
    mac: [u8; 6],
    /// Bytes.
    mtu: u32,
}

/// A planned link.
#[derive(ToSchema)]
pub(crate) struct PlannedLink {
    /// Its name.
    name: String,
    /// In the order of the file.
    ends: [PlannedEnd; 2],
    /// Bytes.
    mtu: u32,
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
    /// What it wrote, without the line's end.
    text: String,
}
