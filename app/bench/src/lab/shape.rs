//! Shapes of the measured labs: a ring of hosts with chords, every link its own segment.

use std::fmt::Write as _;

/// Name of the lab.
pub(crate) const LAB: &str = "bench";
/// A chord's reach along the ring: not 1, and coprime to 100 and 1,000.
const CHORD: u32 = 7;

/// Number of nodes and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) nodes: u32,
    pub(crate) links: u32,
    pub(crate) forwarding: bool,
}

impl Shape {
    /// `100 nodes + 180 links`.
    pub(crate) fn title(self) -> String {
        let routed = if self.forwarding { ", all routers" } else { "" };
        format!("{} nodes + {} links{routed}", self.nodes, self.links)
    }

    /// Both ends of every link: pairs, or else the ring, then chords.
    pub(super) fn ends(self) -> Vec<(u32, u32)> {
        if self.links * 2 == self.nodes {
            return (0..self.links).map(|link| (2 * link, 2 * link + 1)).collect();
        }
        let end = |link: u32| {
            let (from, reach) =
                if link < self.nodes { (link, 1) } else { (link - self.nodes, CHORD) };
            (from, (from + reach) % self.nodes)
        };
        (0..self.links).map(end).collect()
    }

    /// The lab file, with no settings beyond nodes and links.
    pub(crate) fn lab_file(self) -> String {
        let mut text = format!("name: {LAB}\nnodes:\n");
        let node = if self.forwarding { "{forwarding: true}" } else { "{}" };
        // Writing to a String does not fail.
        for index in 0..self.nodes {
            let _ = writeln!(text, "  n{index}: {node}");
        }
        text.push_str("links:\n");
        for (from, to) in self.ends() {
            let _ = writeln!(text, "  - [n{from}, n{to}]");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_made_twice_and_none_to_itself() {
        for (nodes, links) in [(2, 1), (100, 180), (1000, 2000), (1000, 500)] {
            let ends = Shape { nodes, links, forwarding: false }.ends();
            assert_eq!(ends.len(), links as usize);
            let mut known = std::collections::BTreeSet::new();
            for (from, to) in ends {
                assert!(from < nodes && to < nodes && from != to);
                assert!(known.insert((from.min(to), from.max(to))), "{from}-{to} twice");
            }
        }
    }

    #[test]
    fn a_lab_file_lists_nodes_and_links() {
        let text = Shape { nodes: 2, links: 1, forwarding: true }.lab_file();
        let node = "{forwarding: true}";
        assert_eq!(
            text,
            format!("name: bench\nnodes:\n  n0: {node}\n  n1: {node}\nlinks:\n  - [n0, n1]\n")
        );
    }
}
