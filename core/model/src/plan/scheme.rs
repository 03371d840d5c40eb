//! What a plan stores about its making, so that links made later get addresses and routes the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::address::Addressing;
use super::segment::Topology;
use super::{LinkId, NodeId, Plan, PlannedLink, PlannedNode};
use crate::forwarding::Forwarding;
use crate::lab::{Lab, Node, Pool, Switch};

/// How addresses and routes of a lab are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Scheme {
    /// The pools of automatic addresses.
    pub pool: Pool,
    /// Whether routes are computed.
    pub routing: bool,
    /// Whether routers use all shortest paths of equal cost.
    pub ecmp: bool,
    /// Prefixes of switches' segments, by the switch's name.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Vec<String>>))]
    pub switches: BTreeMap<String, Vec<IpNet>>,
    /// Prefixes that contain the links of one node, with its id first, in order of allocation.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<(NodeId, String)>))]
    pub blocks: Vec<(NodeId, IpNet)>,
    /// Ids of nodes with routes given by hand.
    pub routed_by_hand: BTreeSet<NodeId>,
    /// The id of the next link.
    pub next_link: LinkId,
    /// The lab file that the plan was made of; absent where a version made it that kept none. Changes of the running
    /// lab do not alter it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub file: Option<Arc<str>>,
    /// Nodes whose `forwarding` has changed since the lab was first numbered, by name, as it was then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbered_as: BTreeMap<String, Forwarding>,
}

/// How a running lab has its addresses, so that another plan of it keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// The assignment of its pool.
    pub variant: u32,
    /// What each node's `forwarding` was when the lab was numbered, by name.
    pub forwarding: BTreeMap<String, Forwarding>,
}

impl Plan {
    /// Lets [`merge`](crate::merging::merge) compare a host's part of a lab, which has no scheme, with another.
    pub fn number_links(&mut self) {
        if self.scheme.is_none() {
            self.scheme = Some(Scheme::of_links(&self.links));
        }
    }
}

impl Numbering {
    /// That of a running lab.
    pub fn of(plan: &Plan) -> Numbering {
        let scheme = plan.scheme.as_ref();
        let was = |node: &PlannedNode| {
            // What it was first, not what it was last: the addresses stem from then.
            let known = scheme.and_then(|scheme| scheme.numbered_as.get(&node.name));
            (node.name.clone(), known.copied().unwrap_or(node.forwarding))
        };
        Numbering {
            variant: scheme.map_or(0, |scheme| scheme.pool.variant),
            forwarding: plan.nodes.iter().map(was).collect(),
        }
    }

    /// The lab with this numbering; `None` where it has that anyway.
    pub fn put(&self, lab: &Lab) -> Option<Lab> {
        let differs = |node: &Node| {
            let was = self.forwarding.get(&node.name).filter(|was| **was != node.forwarding)?;
            Some((node.name.clone(), *was))
        };
        let numbered_as: BTreeMap<_, _> = lab.nodes.iter().filter_map(differs).collect();
        let pool = Pool { variant: self.variant, ..lab.pool };
        let same = pool == lab.pool && numbered_as == lab.numbered_as;
        (!same).then(|| Lab { pool, numbered_as, ..lab.clone() })
    }
}

impl Scheme {
    /// One that only numbers links: of a host's part of a lab, whose addresses the plan of the whole lab gives.
    fn of_links(links: &[PlannedLink]) -> Scheme {
        let last = links.iter().map(|link| link.id).max();
        Scheme {
            pool: Pool { ipv4: None, ipv6: None, variant: 0 },
            routing: false,
            ecmp: false,
            switches: BTreeMap::new(),
            blocks: vec![],
            routed_by_hand: BTreeSet::new(),
            next_link: last.map_or_else(LinkId::default, LinkId::next),
            file: None,
            numbered_as: BTreeMap::new(),
        }
    }

    /// Records the allocations for later links; `id` returns a node's id by its position.
    pub(super) fn note(
        &mut self,
        both: &[Addressing; 2],
        topology: &Topology,
        switches: &[Switch],
        id: impl Fn(usize) -> NodeId,
    ) {
        // Rebuilt as a whole: a removed link may have freed a block.
        self.switches.clear();
        self.blocks.clear();
        for addressing in both {
            for (segment, prefix) in topology.segments.iter().zip(&addressing.prefixes) {
                let Some(prefix) = prefix else { continue };
                for switch in &segment.switches {
                    let name = switches[*switch].name.clone();
                    self.switches.entry(name).or_default().push(prefix.net);
                }
            }
            let own = addressing.blocks.iter();
            self.blocks.extend(own.map(|b| (id(b.owner), b.prefix)));
        }
    }
}
