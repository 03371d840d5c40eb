//! Segments: the sets of link ends that hear each other's broadcasts.
//!
//! A segment is a set of connected switches with their links, or a link without a switch. The
//! order is fixed: those of switches by their first switch in the file, then those of links. Within
//! a segment ends are in the order of the file.

use crate::lab::{End, Lab};

/// One end of one link: indices into [`Lab::links`] and its `ends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndRef {
    pub(crate) link: usize,
    pub(crate) side: usize,
}

/// A segment: what can communicate without a router.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// Its switches in the order of the file; none for a plain link.
    pub(crate) switches: Vec<usize>,
    /// Its links in the order of the file.
    pub(crate) links: Vec<usize>,
    /// The ends with addresses: those of nodes, except those that shall have none, and the host's end of an
    /// `internet` door.
    pub(crate) ends: Vec<EndRef>,
}

/// The segments of a lab, and the segment of each link.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) segments: Vec<Segment>,
    /// By link: its segment.
    pub(crate) of_link: Vec<usize>,
}

/// Finds the segments of a lab.
pub(crate) fn topology(lab: &Lab) -> Topology {
    let (of_switch, mut segments) = switch_segments(lab);
    let mut of_link = Vec::with_capacity(lab.links.len());
    for (index, link) in lab.links.iter().enumerate() {
        // Both switches of a link between two are in one segment, so the first will do.
        let of = link.ends.iter().find_map(|end| switch_of(end).map(|s| of_switch[s]));
        let of = of.unwrap_or_else(|| {
            segments.push(Segment::default());
            segments.len() - 1
        });
        let segment = &mut segments[of];
        segment.links.push(index);
        let addressed = (0..2).filter(|side| has_address(&link.ends[*side]) && !link.bare[*side]);
        segment.ends.extend(addressed.map(|side| EndRef { link: index, side }));
        of_link.push(of);
    }
    Topology { segments, of_link }
}

/// Joins connected switches; returns the segment of each switch, and the segments.
fn switch_segments(lab: &Lab) -> (Vec<usize>, Vec<Segment>) {
    let mut parent: Vec<usize> = (0..lab.switches.len()).collect();
    for link in &lab.links {
        if let [End::Switch { switch: a }, End::Switch { switch: b }] = link.ends {
            let (a, b) = (root(&mut parent, a), root(&mut parent, b));
            // The root is always the first in the file.
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut segments: Vec<Segment> = Vec::new();
    let mut of_switch = vec![0; parent.len()];
    for switch in 0..parent.len() {
        let first = root(&mut parent, switch);
        if first == switch {
            of_switch[switch] = segments.len();
            segments.push(Segment::default());
        }
        of_switch[switch] = of_switch[first];
        segments[of_switch[switch]].switches.push(switch);
    }
    (of_switch, segments)
}

fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        // Path halving keeps long chains of switches cheap.
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

fn switch_of(end: &End) -> Option<usize> {
    match end {
        End::Switch { switch } => Some(*switch),
        _ => None,
    }
}

fn has_address(end: &End) -> bool {
    matches!(end, End::Node { .. } | End::Internet)
}
