//! The spanning tree of switches in loops: which ports are blocked.
//!
//! Links are taken in the order of the file, those of bridges with `stp` last, so that each loop is closed by one of
//! theirs. That link has no place in the tree, and is blocked at the bridge. Links of switches whose flow entries alone
//! decide are not part of it: their controllers make their own. Kernels run no spanning tree themselves here: `llc_rcv`
//! takes BPDUs in the first network namespace alone.

use std::collections::HashMap;

use super::{LinkSlot, Plan, PlannedEnd, PlannedSwitch};
use crate::kinds::openflow::FailMode;

impl Plan {
    /// Whether a port of a bridge is blocked: its link closes a loop.
    pub fn is_blocked(&self, link: LinkSlot, side: usize) -> bool {
        let blocks = |side: usize| self.switch_of(link, side).is_some_and(|switch| switch.stp);
        let first = (0..2).find(|side| blocks(*side));
        // One end of a link is enough to block it: the first that can.
        first == Some(side) && self.closing().contains(&link.get())
    }

    fn switch_of(&self, link: LinkSlot, side: usize) -> Option<&PlannedSwitch> {
        match self.links.get(link.get())?.ends.get(side)? {
            PlannedEnd::Port { switch, .. } => self.switch_at(*switch),
            _ => None,
        }
    }

    /// The links of bridges with `stp` that close loops.
    fn closing(&self) -> Vec<usize> {
        let decides = |switch: &PlannedSwitch| {
            switch.kind.as_openflow().is_some_and(|options| options.fail == FailMode::Secure)
        };
        let mut tree: HashMap<&str, &str> = HashMap::new();
        let mut closing = vec![];
        // Other links first: what closes a loop is then a link that can be blocked.
        for last in [false, true] {
            for link in 0..self.links.len() {
                let [Some(a), Some(b)] =
                    [0, 1].map(|side| self.switch_of(LinkSlot::new(link), side))
                else {
                    continue;
                };
                if decides(a) || decides(b) || (a.stp || b.stp) != last {
                    continue;
                }
                let [a, b] = [a, b].map(|switch| root(&tree, &switch.name));
                if a != b {
                    tree.insert(a, b);
                } else if last {
                    closing.push(link);
                }
            }
        }
        closing
    }
}

fn root<'a>(tree: &HashMap<&'a str, &'a str>, mut name: &'a str) -> &'a str {
    while let Some(next) = tree.get(name) {
        name = next;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(switches: &str, links: &str) -> Vec<(usize, usize)> {
        let text =
            format!("loops: allowed\nswitches: {{{switches}}}\nlinks: [{links}]\nnodes: {{h: }}\n");
        let lab = crate::parse("lab", text.as_bytes(), "lab").unwrap_or_else(|e| panic!("{e}"));
        let plan = super::super::plan(&lab).unwrap();
        let all = (0..plan.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
        all.filter(|(link, side)| plan.is_blocked(LinkSlot::new(*link), *side)).collect()
    }

    #[test]
    fn each_loop_has_one_blocked_port() {
        let ring = "[s1, s2], [s2, s3], [s3, s1], [h, s1]";
        let all = "s1: {stp: true}, s2: {stp: true}, s3: {stp: true}";
        assert_eq!(blocked(all, ring), [(2, 0)]);
        // Only its own ports are blocked, wherever the loop is closed.
        assert_eq!(blocked("s1: , s2: {stp: true}, s3: ", ring), [(1, 0)]);
        let two = "[s1, s2], [s1, s2], [s2, s3], [s1, s3], [s1, s3]";
        assert_eq!(blocked(all, two), [(1, 0), (3, 0), (4, 0)]);
        // A loop over a switch that controllers program is theirs.
        let mixed =
            "s1: {stp: true}, s2: {stp: true}, s3: {kind: openflow, controllers: 'host:6699'}";
        assert_eq!(blocked(mixed, ring), []);
        assert_eq!(blocked(all, "[s1, s2], [s2, s3], [h, s1]"), []);
    }

    #[test]
    fn a_loop_that_nothing_blocks_is_refused() {
        let text = |loops: &str, stp: &str| {
            format!(
                "{loops}switches: {{s1: {{{stp}}}, s2: , s3: }}\nlinks: [[s1, s2], [s2, s3], [s3, s1]]\n"
            )
        };
        let said = |loops, stp| {
            let text = text(loops, stp);
            crate::parse("lab", text.as_bytes(), "lab").map(drop).unwrap_err().to_string()
        };
        assert!(said("", "stp: true").contains("or write `loops: allowed`"));
        assert!(said("loops: allowed\n", "").contains("none of which blocks"));
        assert!(said("loops: yes\n", "stp: true").contains("refused"));
        assert!(
            said("loops: allowed\n", "kind: shm, stp: true")
                .contains("only a switch of kind kernel")
        );
    }
}
