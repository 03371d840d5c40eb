//! A lab in numbers: what a list of labs and the head of a large one need, and no more.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LabState, LabStatus, NodeState};

/// The most nodes that are named.
pub(crate) const MOST_TROUBLED: usize = 100;

/// A lab in numbers. No node's network is read for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabCounts {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: LabState,
    /// Digest of the plan of the file it was made from.
    pub digest: String,
    /// The lab process.
    pub pid: i32,
    /// Unix time in seconds when it came up.
    pub since: u64,
    /// Its nodes, by state.
    pub nodes: NodeNumbers,
    /// Its links.
    pub links: LinkNumbers,
    /// Its switches.
    pub switches: usize,
    /// The first 100 nodes that are not up, in the order of the file.
    pub troubled: Vec<TroubledNode>,
}

/// Numbers of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeNumbers {
    /// Of all states.
    pub all: usize,
    /// That are up.
    pub up: usize,
    /// That are being made, or wait to be ready.
    pub starting: usize,
    /// That have a program that ended with an error, or lost an interface.
    pub degraded: usize,
    /// That could not become ready.
    pub failed: usize,
    /// Whose init has ended.
    pub dead: usize,
}

/// Numbers of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkNumbers {
    /// All.
    pub all: usize,
    /// That were taken down, as if their cable were pulled.
    pub down: usize,
}

/// A node that is not up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TroubledNode {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: NodeState,
    /// What it waits for, why it has failed, or which program ended how; `null` where its init has ended.
    pub reason: Option<String>,
}

impl NodeNumbers {
    fn add(&mut self, state: NodeState) {
        self.all += 1;
        *match state {
            NodeState::Up => &mut self.up,
            NodeState::Starting => &mut self.starting,
            NodeState::Degraded => &mut self.degraded,
            NodeState::Failed => &mut self.failed,
            NodeState::Dead => &mut self.dead,
        } += 1;
    }

    /// Whether any has a program that ended with an error, an interface that is lost, or could not become ready.
    pub(crate) fn any_troubled(&self) -> bool {
        self.degraded + self.failed > 0
    }

    /// Nodes that stand like this, and those of them that are not up, at most 100.
    pub(crate) fn of<'n>(
        nodes: impl Iterator<Item = (&'n str, NodeState, Option<String>)>,
    ) -> (NodeNumbers, Vec<TroubledNode>) {
        let mut counts = NodeNumbers::default();
        let mut troubled = Vec::new();
        for (name, state, reason) in nodes {
            counts.add(state);
            if state != NodeState::Up && troubled.len() < MOST_TROUBLED {
                troubled.push(TroubledNode { name: name.to_owned(), state, reason });
            }
        }
        (counts, troubled)
    }
}

impl LabCounts {
    /// What a whole status says: for lab processes of an earlier version, which do not count.
    pub fn of(status: &LabStatus) -> LabCounts {
        let nodes = status.nodes.iter().map(|n| (n.name.as_str(), n.state, n.reason.clone()));
        let (nodes, troubled) = NodeNumbers::of(nodes);
        let down = status.links.iter().filter(|link| link.down).count();
        LabCounts {
            name: status.name.clone(),
            state: status.state,
            digest: status.digest.clone(),
            pid: status.pid,
            since: status.since,
            nodes,
            links: LinkNumbers { all: status.links.len(), down },
            switches: status.switches.len(),
            troubled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_by_state_and_the_first_that_are_not_up_are_named() {
        let states = [
            NodeState::Dead,
            NodeState::Up,
            NodeState::Failed,
            NodeState::Degraded,
            NodeState::Starting,
        ];
        let names: Vec<String> = (0..500).map(|n| format!("n{n}")).collect();
        let all = names.iter().zip(states.iter().cycle());
        let (counts, troubled) = NodeNumbers::of(
            all.map(|(name, state)| (name.as_str(), *state, Some("why".to_owned()))),
        );
        let expected =
            NodeNumbers { all: 500, up: 100, starting: 100, degraded: 100, failed: 100, dead: 100 };
        assert_eq!(counts, expected);
        assert!(counts.any_troubled());
        assert_eq!(troubled.len(), MOST_TROUBLED);
        assert_eq!((troubled[0].name.as_str(), troubled[0].state), ("n0", NodeState::Dead));
        assert_eq!(troubled[1].name, "n2", "one that is up is not named");
    }
}
