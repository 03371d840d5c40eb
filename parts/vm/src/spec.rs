//! Configuration of a machine's process: plain data, as JSON in its environment.

use std::path::{Path, PathBuf};

use netloom_model::kinds::vm::Machine;
use netloom_model::lab::Ready;
use netloom_model::plan::PlannedNode;
use serde::{Deserialize, Serialize};

/// The variable that holds it.
pub const SPEC: &str = "NETLOOM_MACHINE";

/// The hidden verb of the machine's process.
pub const VERB: &str = "vm-process";

/// What the machine still waits for before it is ready; an empty file when it is.
pub const STATE: &str = "/run/netloom-machine/state";

/// The folder of its files in the node.
pub(crate) const FOLDER: &str = "/run/netloom-machine";

/// The socket of clients, in the abstract namespace of the node's network.
pub(crate) const SOCKET: &str = "netloom-machine";

/// The name, in the abstract namespace of the node's network, of the socket at which a card's switch waits for the machine:
/// for a card by vhost-user.
pub fn card_socket(interface: &str) -> String {
    format!("netloom-card-{interface}")
}

/// A machine and the node around it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The lab's name.
    pub lab: String,
    /// The node, whose kind is a machine.
    pub node: PlannedNode,
    /// Interfaces of the plan that are cards by vhost-user: the node has none of these names.
    #[serde(default)]
    pub cards: Vec<String>,
}

impl Spec {
    /// The machine's options.
    pub(crate) fn machine(&self) -> Machine {
        self.node.kind.as_vm().cloned().unwrap_or_default()
    }

    /// What must hold before it is ready.
    pub(crate) fn ready(&self) -> &Ready {
        &self.node.ready
    }

    /// A file in the machine's folder.
    pub(crate) fn file(name: &str) -> PathBuf {
        Path::new(FOLDER).join(name)
    }
}
