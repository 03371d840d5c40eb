//! What the commands and programs of the file had changed when their node was ready: it is the file's, and no drift.
//!
//! Kept as `commands.json` in the lab's folder, for each node that has commands, programs or sysctls of its own. A node
//! without an entry, since the lab process was killed before it wrote one, gets it from the next.

use std::collections::{BTreeMap, BTreeSet};

use netloom_model::merging::KeyChange;
use netloom_model::plan::NodeId;

use crate::Result;
use crate::store::state::Folder;

/// What nodes' own commands changed. A program may change very much: each difference is looked up in it.
#[derive(Debug, Default)]
pub(crate) struct Left(pub(in crate::run) BTreeMap<NodeId, BTreeSet<KeyChange>>);

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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_a_program_changed_is_known_soon_however_much_it_is() {
        let change = |number: u32| KeyChange {
            key: "routes".into(),
            words: format!("no route 10.128.0.0/32 dev eth0 metric {number}"),
        };
        let (node, begun) = (NodeId::new(1), Instant::now());
        let left = Left(BTreeMap::from([(node, (0..100_000).map(change).collect())]));
        assert!((0..100_000).all(|number| left.has(node, &change(number))));
        assert!(!left.has(node, &change(100_000)) && !left.has(NodeId::new(2), &change(0)));
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}
