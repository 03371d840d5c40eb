//! What the commands and programs of the file had changed when their node was ready: it is the file's, and no drift.
//!
//! Kept as `commands.json` in the lab's folder, for each node that has commands, programs or sysctls of its own. A node
//! without an entry, since the lab process was killed before it wrote one, gets it from the next.

use std::collections::BTreeMap;

use netloom_model::merging::KeyChange;
use netloom_model::plan::NodeId;

use crate::Result;
use crate::store::state::Folder;

/// What nodes' own commands changed.
#[derive(Debug, Default)]
pub(crate) struct Left(pub(in crate::run) BTreeMap<NodeId, Vec<KeyChange>>);

impl Left {
    /// What the lab of a folder has noted.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(folder: &Folder) -> Result<Left> {
        Ok(Left(folder.read_commands()?))
    }

    pub(in crate::run) fn has(&self, node: NodeId, change: &KeyChange) -> bool {
        self.0.get(&node).is_some_and(|left| left.contains(change))
    }
}
