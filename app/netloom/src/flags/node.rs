//! The flags of `node`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Listing, Setting, setting};

// `node`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Node {
    /// Create a node. If no lab runs, one named `default` is brought up for it.
    Create(NodeCreate),
    /// Delete a node and all nodes in it.
    Delete(NodeDelete),
    /// List nodes with their use of CPU and memory, and their limits.
    List(Listing),
    /// Show everything about a node.
    Show(Show),
    /// Change limits, protection or root of a node; `none` removes a limit.
    Set(NodeSet),
    /// Move the control plane of a router to a fresh node, while its packets pass beside it.
    MoveControl(MoveControl),
    /// Move an interface between nodes, or between a node and the host.
    MoveInterface(MoveInterface),
    /// Stop a virtual machine's time until it is resumed.
    Pause(Machine),
    /// Continue a paused virtual machine.
    Resume(Machine),
    /// Save the whole state of a virtual machine of QEMU, its disk with it; it replaces an earlier save.
    Save(Machine),
    /// Put a virtual machine back into the state that was saved.
    Restore(Machine),
}

// `node pause`, `resume`, `save` and `restore`.
#[derive(Debug, Args)]
pub(crate) struct Machine {
    /// The node.
    pub(crate) node: String,
}

// `node create`.
#[derive(Debug, Args)]
pub(crate) struct NodeCreate {
    /// The node's name; PARENT/NAME creates it inside another node.
    pub(crate) name: String,
    /// Settings: cpu, weight, memory, processes, sockets, protect, auto, packets, bytes,
    /// charge-receive, children, privileged, ids.
    #[arg(value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<Setting>,
    /// The directory to use as its root file system.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

// `node delete`.
#[derive(Debug, Args)]
pub(crate) struct NodeDelete {
    /// The node.
    pub(crate) node: String,
    /// Delete it even if processes live in it, or in nodes in it.
    #[arg(long)]
    pub(crate) force: bool,
}

// `node show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The node.
    pub(crate) node: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `node set`.
#[derive(Debug, Args)]
pub(crate) struct NodeSet {
    /// The node.
    pub(crate) node: String,
    /// Settings: cpu, weight, memory, processes, sockets, protect, auto, packets, bytes,
    /// charge-receive, children, privileged, ids, root.
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<Setting>,
}

// `node move-control`.
#[derive(Debug, Args)]
pub(crate) struct MoveControl {
    /// The router; its plane is separate.
    pub(crate) node: String,
}

// `node move-interface`.
#[derive(Debug, Args)]
pub(crate) struct MoveInterface {
    /// NODE:IFACE, or host:IFACE.
    #[arg(value_name = "NODE:IFACE")]
    pub(crate) interface: String,
    /// Where it goes: a node, or `host`.
    #[arg(value_name = "NODE|host")]
    pub(crate) to: String,
    /// Its name in the new place.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Keep its addresses and routes.
    #[arg(long)]
    pub(crate) carry: bool,
}
