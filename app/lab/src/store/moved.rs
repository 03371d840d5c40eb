//! Interfaces that were moved from where the plan put them, and their homes.

use netloom_model::plan::NodeId;
use serde::{Deserialize, Serialize};

/// An interface that was moved to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Its home.
    pub home: Home,
    /// Its name there.
    pub old_name: String,
    /// The node it is in: its id.
    pub node: NodeId,
    /// Its name there.
    pub name: String,
    /// Its index there.
    pub index: u32,
    /// Its hardware address, which identifies a card on the host after its node was killed.
    pub mac: [u8; 6],
    /// Whether it was up before, and so is raised again.
    pub was_up: bool,
}

/// The home of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// The host.
    Host,
    /// A node: its id, and the interface's index there.
    Node {
        /// The node's id.
        node: NodeId,
        /// The interface's index.
        index: u32,
    },
}
