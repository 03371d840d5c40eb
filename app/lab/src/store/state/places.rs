//! Places in a lab's folder: sockets, locks, and folders of its processes.

use std::path::PathBuf;

use netloom_model::plan::{LinkId, NodeId};

use super::Folder;

/// The folder of the inits' sockets and logs.
pub(crate) const SOCKETS: &str = "n";

/// The parent of the folders of OpenFlow switches.
pub(crate) const FLOWS: &str = "o";

/// The folder of the slicer.
pub(crate) const SLICER: &str = "sl";

/// The parent of the folders of nodes that manage others.
pub(crate) const SCOPES: &str = "s";

/// The folder of the files of switches and plugs.
const SWITCHES: &str = "k";

/// The end of the name of the lock of a process that offers a switch to clients of classic VDE.
pub(crate) const VDE_LOCK: &str = ".vde.lock";

impl Folder {
    /// The folder of the inits' sockets and logs.
    pub fn sockets(&self) -> PathBuf {
        self.path().join(SOCKETS)
    }

    /// The control socket of the wires' process.
    pub fn wire_socket(&self) -> PathBuf {
        self.path().join("wire.sock")
    }

    /// The folder of the files of switches and plugs.
    pub(crate) fn switch_files(&self) -> PathBuf {
        self.path().join(SWITCHES)
    }

    /// The state file of a shared-memory switch.
    pub(crate) fn switch_state(&self, switch: &str) -> PathBuf {
        self.switch_files().join(format!("{switch}.json"))
    }

    /// The shared-memory switches that have a state file.
    pub(crate) fn switches_with_state(&self) -> Vec<String> {
        let names = self.names_in(Some(SWITCHES)).into_iter();
        names.filter_map(|name| Some(name.to_str()?.strip_suffix(".json")?.to_owned())).collect()
    }

    /// The parent of the folders of OpenFlow switches.
    pub(crate) fn flow_files(&self) -> PathBuf {
        self.path().join(FLOWS)
    }

    /// The folder of an OpenFlow switch: its sockets and its state.
    pub(crate) fn flow_folder(&self, switch: &str) -> PathBuf {
        self.flow_files().join(short(switch))
    }

    /// The socket at which an OpenFlow switch takes requests.
    pub(crate) fn flow_control(&self, switch: &str) -> PathBuf {
        self.flow_folder(switch).join("control")
    }

    /// The socket at which an OpenFlow switch speaks OpenFlow.
    pub fn flow_socket(&self, switch: &str) -> PathBuf {
        self.flow_folder(switch).join("openflow")
    }

    /// The folder of the slicer: its sockets, and one for each virtual switch, `SLICE.SWITCH`.
    pub(crate) fn slicer_folder(&self) -> PathBuf {
        self.path().join(SLICER)
    }

    /// The socket at which the slicer takes requests.
    pub fn slicer_control(&self) -> PathBuf {
        self.slicer_folder().join("control")
    }

    /// The socket at which switches connect to the slicer.
    pub(crate) fn slicer_socket(&self) -> PathBuf {
        self.slicer_folder().join("openflow")
    }

    /// The socket of a virtual switch.
    pub fn virtual_socket(&self, slice: &str, switch: &str) -> PathBuf {
        self.slicer_folder().join(format!("{slice}.{switch}"))
    }

    /// What daemons of a router put down for those of the node that it moves to, beside its plane.
    pub(crate) fn carried(&self, plane: &str) -> PathBuf {
        self.flow_folder(plane).join("carried")
    }

    /// The file that the process which follows a router holds a lock on, beside its plane.
    pub(crate) fn router_lock(&self, plane: &str) -> PathBuf {
        self.flow_folder(plane).join("router.lock")
    }

    /// All such files, those of planes that are no longer in a plan among them.
    pub(crate) fn router_locks(&self) -> Vec<PathBuf> {
        let folder = self.flow_files();
        let names = self.names_in(Some(FLOWS)).into_iter();
        names.map(|name| folder.join(name).join("router.lock")).collect()
    }

    /// The file that the process which publishes a node's ports holds a lock on.
    pub(crate) fn ports_lock(&self, node: NodeId) -> PathBuf {
        self.path().join(format!("{node}.ports.lock"))
    }

    /// All such files.
    pub(crate) fn ports_locks(&self) -> Vec<PathBuf> {
        let folder = self.path();
        let is_lock = |path: &PathBuf| path.to_string_lossy().ends_with(".ports.lock");
        self.names_in(None).into_iter().map(|name| folder.join(name)).filter(is_lock).collect()
    }

    /// A file of the way out of a lab of an ordinary user: `lock`, `net` (the place of its namespace), `log`.
    pub(crate) fn uplink(&self, file: &str) -> PathBuf {
        self.path().join(format!("uplink.{file}"))
    }

    /// The file that the plug of a link's end holds a lock on.
    pub(crate) fn plug_lock(&self, link: LinkId, side: usize) -> PathBuf {
        self.switch_files().join(format!("{link}-{side}.lock"))
    }

    /// The lock file of the process that offers a switch to clients of classic VDE. As an id of a link has no
    /// letters, no plug has it.
    pub(crate) fn vde_lock(&self, switch: &str) -> PathBuf {
        self.switch_files().join(format!("{switch}{VDE_LOCK}"))
    }

    /// The lock files of all plugs, and of what offers switches to clients of VDE.
    pub(crate) fn plug_locks(&self) -> Vec<PathBuf> {
        let folder = self.switch_files();
        let is_lock = |path: &PathBuf| path.extension().is_some_and(|e| e == "lock");
        let names = self.names_in(Some(SWITCHES)).into_iter();
        names.map(|name| folder.join(name)).filter(is_lock).collect()
    }

    /// The folder of sockets by which a node manages the nodes in it.
    pub fn scope(&self, node: NodeId) -> PathBuf {
        self.path().join(SCOPES).join(node.to_string())
    }
}

/// A name that fits into the path of a socket: a long one keeps its beginning, followed by a hash of the whole.
fn short(name: &str) -> String {
    const LONGEST: usize = 24;
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let hash = netloom_digest::fnv1a::hash_32(name.as_bytes());
    let kept = (0..=LONGEST - 9).rev().find_map(|end| name.get(..end)).unwrap_or_default();
    format!("{kept}~{hash:08x}")
}
