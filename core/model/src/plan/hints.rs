//! Valid and probably unintended parts of a lab: a node between two networks that does not forward.
//!
//! It is one only where somebody of each network is not in the other and nothing else joins the two, and the file says nothing
//! about what the node does with packets: no `forwarding`, no routes, no sysctl of forwarding.

use std::collections::HashSet;

use super::segment::{Segment, topology};
use crate::kinds::NodeKind;
use crate::lab::{End, Lab, Node};

/// Something that is probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The node that it is about.
    pub node: String,
    /// What it is, and what to write instead.
    pub words: String,
}

/// The hints on a lab, in words.
pub fn hints(lab: &Lab) -> Vec<String> {
    hints_on_nodes(lab).into_iter().map(|hint| hint.words).collect()
}

/// The hints on a lab, with their nodes.
pub fn hints_on_nodes(lab: &Lab) -> Vec<Hint> {
    // With `routing: none` the file says itself where packets go.
    if !lab.routing {
        return vec![];
    }
    let segments = topology(lab).segments;
    let of_node = by_node(lab, &segments);
    let mut joined: Vec<usize> = (0..segments.len()).collect();
    for (_, near) in lab.nodes.iter().zip(&of_node).filter(|(node, _)| node.forwarding.any()) {
        for pair in near.windows(2) {
            let (a, b) = (root(&mut joined, pair[0]), root(&mut joined, pair[1]));
            joined[a.max(b)] = a.min(b);
        }
    }
    let networks: Vec<usize> = (0..segments.len()).map(|at| root(&mut joined, at)).collect();
    let members = members(lab, &segments, &networks);
    let mut all = Vec::new();
    for (index, near) in of_node.iter().enumerate().filter(|(index, _)| is_open(&lab.nodes[*index]))
    {
        let mut own: Vec<usize> = near.iter().map(|segment| networks[*segment]).collect();
        own.dedup();
        // Pairs grow with the square, and one of them is enough for a hint.
        own.truncate(MOST_NETWORKS);
        // A node of one network that is not in the other, and vice versa.
        let only = |a: usize, b: usize| {
            members[a].iter().find(|m| **m != Member::Node(index) && !members[b].contains(m))
        };
        let mut pairs =
            own.iter().enumerate().flat_map(|(at, a)| own[at + 1..].iter().map(move |b| (*a, *b)));
        let apart = |(a, b)| (a != b).then(|| Some((only(a, b)?, only(b, a)?))).flatten();
        if let Some((first, second)) = pairs.find_map(apart) {
            let (first, second) = (first.name(lab), second.name(lab));
            let node = lab.nodes[index].name.clone();
            let words = format!(
                "node {node:?} joins the networks of {first:?} and {second:?} and does not forward between them; write \
                 `forwarding: true`, or `forwarding: false` if that is meant"
            );
            all.push(Hint { node, words });
        }
    }
    all
}

/// How many networks of a node are looked at.
const MOST_NETWORKS: usize = 32;

/// Somebody with an address in a network.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Member {
    Node(usize),
    Internet,
}

impl Member {
    fn name(self, lab: &Lab) -> &str {
        match self {
            Member::Node(node) => &lab.nodes[node].name,
            Member::Internet => "internet",
        }
    }
}

/// By network, the segments that routers join: its nodes, in the order of the file.
fn members(lab: &Lab, segments: &[Segment], networks: &[usize]) -> Vec<IndexedSet> {
    let mut members = vec![IndexedSet::default(); segments.len()];
    for (segment, network) in segments.iter().zip(networks) {
        for end in &segment.ends {
            match lab.links[end.link].ends[end.side] {
                End::Node { node, .. } => members[*network].insert(Member::Node(node)),
                End::Internet => members[*network].insert(Member::Internet),
                _ => {}
            }
        }
    }
    members
}

/// Members in the order in which they came.
#[derive(Clone, Default)]
struct IndexedSet {
    order: Vec<Member>,
    known: HashSet<Member>,
}

impl IndexedSet {
    fn insert(&mut self, member: Member) {
        if self.known.insert(member) {
            self.order.push(member);
        }
    }

    fn contains(&self, member: &Member) -> bool {
        self.known.contains(member)
    }

    fn iter(&self) -> impl Iterator<Item = &Member> {
        self.order.iter()
    }
}

/// Whether the file leaves open what a node does with packets for others.
fn is_open(node: &Node) -> bool {
    let is_decided = node.forwarding.any()
        || node.forwarding_given
        || node.routes.is_some()
        || node.sysctls.keys().any(|key| key.contains("forward"));
    !is_decided && matches!(node.kind, NodeKind::Plain)
}

/// By node: the segments in which it has addresses.
fn by_node(lab: &Lab, segments: &[Segment]) -> Vec<Vec<usize>> {
    let mut of_node = vec![Vec::new(); lab.nodes.len()];
    for (index, segment) in segments.iter().enumerate() {
        for end in &segment.ends {
            if let End::Node { node, .. } = lab.links[end.link].ends[end.side] {
                of_node[node].push(index);
            }
        }
    }
    of_node
}

fn root(joined: &mut [usize], mut at: usize) -> usize {
    while joined[at] != at {
        joined[at] = joined[joined[at]];
        at = joined[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        hints(&crate::parse("t.yaml", text.as_bytes(), "t").unwrap())
    }

    #[test]
    fn a_node_between_two_networks_that_says_nothing_is_told() {
        let lab = |m: &str, more: &str| {
            format!(
                "name: t\nnodes: {{a: {{}}, m: {{{m}}}, b: {{}}, c: {{}}}}\nswitches: {{lan: {{}}}}\n\
                 links: [[a, lan], [m, lan], [m, b]{more}]\n"
            )
        };
        let told = of(&lab("", ""));
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("node \"m\" joins the networks of \"a\" and \"b\" and does not"),
            "{told:?}"
        );
        assert!(of(&lab("", ", [m, internet]"))[0].contains("\"a\" and \"b\""));
        for decided in [
            "forwarding: true",
            "forwarding: false",
            "routes: []",
            "sysctls: {net.ipv4.ip_forward: 1}",
            "kind: vm, kernel: k",
        ] {
            assert!(of(&lab(decided, "")).is_empty(), "{decided}");
        }
        assert!(of(&format!("{}routing: none\n", lab("", ""))).is_empty());
        // Two links to one network, a network with nobody else, one that a router joins already, and one without addresses.
        assert!(of("name: t\nnodes: {a: {}, m: {}}\nswitches: {s: {}}\nlinks: [[a, s], [m, s], [m, s]]\n").is_empty());
        assert!(of("name: t\nnodes: {a: {}, m: {}}\nlinks: [[a, m], [m, nowhere]]\n").is_empty());
        // Two who have a link of their own beside their router.
        assert!(of("name: t\nnodes: {a: {}, m: {}, r: {forwarding: true}}\nlinks: [[a, r], [m, r], [a, m]]\n")
            .is_empty());
        assert!(
            of("name: t\nnodes: {a: {}, m: {}, r: {forwarding: true}, b: {}}\n\
                    links: [[a, m], [a, r], [m, r], [r, b]]\n")
            .is_empty()
        );
        assert!(
            of("name: t\nnodes: {a: {}, m: {}, b: {}}\nlinks:\n  - [a, m]\n  \
                    - {ends: [m, b], addresses: none}\n")
            .is_empty()
        );
    }
}
