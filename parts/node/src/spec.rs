//! Orders to the spawner and to an init: plain data, sent as JSON.

use std::path::PathBuf;

use netloom_model::lab::{Bind, Exec, FileSpec, Health, Program, Ready};
use serde::{Deserialize, Serialize};

use crate::users::Users;

/// The part that all nodes of a lab share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prepare {
    /// The lab's name.
    pub lab: String,
    /// The lab's state folder. Control sockets and logs are in its `n/`.
    pub state: PathBuf,
    /// The folder of all labs' state, hidden from nodes.
    pub runtime: PathBuf,
    /// The spawner lives in a user namespace of an ordinary user.
    pub user: bool,
    /// Text of /etc/hosts.
    pub hosts: String,
    /// Soft and hard limit on open files for programs: those of the caller.
    pub open_files: (Option<u64>, Option<u64>),
    /// Nodes with user namespaces of their own are asked for next: the first one's network is made meanwhile.
    #[serde(default)]
    pub network_ahead: bool,
}

/// Kind of init.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Holds namespaces only: the lab's core.
    Core,
    /// A node with a file system and programs.
    Node,
}

/// One node to create.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Its number in the lab: the control socket is `n/INDEX.sock`.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its host name.
    pub host_name: String,
    /// A folder of sockets through which it manages the nodes inside it, shown below [`SCOPES`] under its
    /// host name.
    pub scope: Option<PathBuf>,
    /// Its kind.
    pub kind: Kind,
    /// Its programs have more capabilities than those of ordinary nodes.
    pub privileged: bool,
    /// What changes of owners and users do.
    #[serde(default)]
    pub users: Users,
    /// Root directory instead of the host's.
    pub root: Option<PathBuf>,
    /// Directories that make up its root instead, each above those before it: an image's layers.
    #[serde(default)]
    pub layers: Vec<PathBuf>,
    /// Limit in bytes on writes to its file system; a quarter of the machine's memory when `None`.
    pub storage: Option<u64>,
    /// `tasks` files of version 1 cgroups to join.
    pub tasks: Vec<PathBuf>,
    /// Directory of the version 2 cgroup in which it is created.
    pub v2_cgroup: Option<PathBuf>,
    /// Files of its groups that say what it may use and has used.
    #[serde(default)]
    pub gauges: Vec<PathBuf>,
    /// Why it is in no time namespace of its own, if it is not.
    #[serde(default)]
    pub no_own_time: Option<String>,
    /// Files to place before the file system is mounted; host paths are absolute.
    pub files: Vec<FileSpec>,
    /// Files and directories of the host that it sees; their paths there are absolute.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Files of the host that its programs write: each, and where the node has it.
    #[serde(default)]
    pub shown: Vec<(PathBuf, PathBuf)>,
    /// Text of /etc/resolv.conf if it differs from the empty one.
    pub resolv: Option<String>,
    /// Paths below /proc/sys and values, in order.
    pub sysctls: Vec<(String, String)>,
    /// Environment of programs.
    pub env: Vec<(String, String)>,
    /// Commands that must succeed, in order, before programs start.
    pub setup: Vec<Vec<String>>,
    /// Programs to run.
    pub run: Vec<Program>,
    /// Conditions for readiness.
    pub ready: Ready,
    /// Commands to do when it is asked to ([`Request::Exec`](crate::control::Request::Exec)).
    #[serde(default)]
    pub exec: Vec<Exec>,
    /// A check that repeats once it is ready.
    #[serde(default)]
    pub health: Option<Health>,
    /// A file in which a program says what it still waits for; empty when it is ready.
    #[serde(default)]
    pub told_in: Option<PathBuf>,
}

/// Bridges only forward frames. With br_netfilter loaded, no packet filter sees them (its own sysctls apply
/// in addition to each bridge's options), and bridges have no addresses.
const CORE_SYSCTLS: [(&str, &str); 5] = [
    ("net/bridge/bridge-nf-call-iptables", "0"),
    ("net/bridge/bridge-nf-call-ip6tables", "0"),
    ("net/bridge/bridge-nf-call-arptables", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

impl NodeSpec {
    /// Whether its root is not the host's files.
    pub(crate) fn has_own_root(&self) -> bool {
        self.root.is_some() || !self.layers.is_empty()
    }

    /// A holder of namespaces without file system or programs.
    pub fn core(index: usize, name: &str) -> NodeSpec {
        NodeSpec {
            index,
            name: name.to_owned(),
            host_name: name.to_owned(),
            scope: None,
            kind: Kind::Core,
            privileged: false,
            users: Users::Kernel,
            root: None,
            layers: vec![],
            storage: None,
            tasks: vec![],
            v2_cgroup: None,
            gauges: vec![],
            no_own_time: None,
            files: vec![],
            binds: vec![],
            shown: vec![],
            resolv: None,
            sysctls: CORE_SYSCTLS.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
            env: vec![],
            setup: vec![],
            run: vec![],
            ready: Ready::default(),
            exec: vec![],
            health: None,
            told_in: None,
        }
    }
}

/// The number of the init that holds the lab's core namespace.
pub const CORE: usize = usize::MAX;

/// The node's directory for folders through which it manages the nodes inside it.
pub const SCOPES: &str = "/run/netloom";

/// Name of a node's control socket in the folder `n` of the lab's state.
pub fn socket_name(index: usize) -> String {
    if index == CORE { "core.sock".to_owned() } else { format!("{index}.sock") }
}

/// The index in a control socket's name.
pub fn socket_index(name: &str) -> Option<usize> {
    let stem = name.strip_suffix(".sock")?;
    if stem == "core" { Some(CORE) } else { stem.parse().ok() }
}

/// Names of a node's two log files in the folder `n`.
pub fn log_names(index: usize) -> [String; 2] {
    [format!("{index}.log.0"), format!("{index}.log.1")]
}
