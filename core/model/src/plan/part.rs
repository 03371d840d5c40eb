//! What each of several hosts makes of a plan.
//!
//! A [`Placement`] says which host makes each node and switch; [`Plan::part`] is one host's [`Part`]. Nothing is decided again:
//! names, ids, indexes, MACs, addresses and routes are those of the whole plan, so they do not depend on the number of hosts,
//! and hosts need not ask each other for any.
//!
//! A link between two hosts is made half here and half there. Both halves have a number, its VNI (RFC 7348, section 5),
//! which follows from names as addresses do: from the link's name, or the next free one, in the order of the plan. Every link of
//! the plan has its number, whether it is across or not, so that moving a node changes none.

use netloom_impair::Impairments;
use serde::Serialize;

use super::build::digest_of;
use super::change::Renumbered;
use super::hash::hash;
use super::names::CoreNames;
use super::slots::Slots;
use super::{LinkId, LinkSlot, Plan, PlannedEnd, PlannedLink, Slot, SwitchSlot};
use crate::bounds::{MAX_LINKS, MAX_NODES};

/// How many numbers there are: a VNI has 24 bits; 0 is nobody's, and the last one is for what hosts say to each other.
const NUMBERS: u64 = (1 << 24) - 2;

/// The number by which hosts ask each other whether they are there.
pub const PRESENCE_NUMBER: u32 = (1 << 24) - 1;

/// Why a placement is not one of a plan, which only a mistake of this program can cause.
pub const MISFIT: &str = "the placement is not one of this plan";

/// Which host makes each node and switch of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Names of the hosts.
    hosts: Vec<String>,
    /// By node: the host.
    nodes: Vec<usize>,
    /// By switch: the hosts of its pieces; the others are linked to the first.
    switches: Vec<Vec<usize>>,
}

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The link's name; between pieces of a switch `SWITCH@HOST--SWITCH@HOST`.
    pub name: String,
    /// Its number, 1 to 2^24 - 2; no other link of the lab has it.
    pub number: u32,
    /// By end: the host, an index.
    pub hosts: [usize; 2],
    /// The link of the plan; none between pieces of a switch.
    pub link: Option<LinkSlot>,
    /// MTU in bytes.
    pub mtu: u32,
}

/// What one host makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The host's name.
    pub host: String,
    /// Its nodes and switches, and the links that stay on it. An interface of a link across has
    /// [`LinkSlot::NOT_SHOWN`]. `/etc/hosts` is the whole lab's.
    pub plan: Plan,
    /// Its halves of links across.
    pub halves: Vec<LinkHalf>,
}

/// One host's half of a link across.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkHalf {
    /// The link's name.
    pub name: String,
    /// The link's number, the same on both hosts.
    pub number: u32,
    /// The link's id in the plan; none between pieces of a switch.
    pub id: Option<LinkId>,
    /// Which of the link's ends this host makes.
    pub side: usize,
    /// The end that this host makes, with slots of its part. Between pieces of a switch, a port like those of the plan.
    pub end: PlannedEnd,
    /// The other end in words: `r1:eth0`, `s1`.
    pub far: String,
    /// The host that makes the other end.
    pub peer: String,
    /// MTU in bytes.
    pub mtu: u32,
    /// What is done to frames that this end sends.
    pub impairments: Impairments,
}

/// An end of a link that another host makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarEnd {
    /// The link, in a host's own lab.
    pub link: LinkId,
    /// Which of its ends.
    pub side: usize,
    /// The link's number, the same on both hosts.
    pub number: u32,
    /// The host that makes it.
    pub peer: String,
    /// The end in words: `r1:eth0`, `s1`.
    pub end: String,
}

impl Part {
    /// What this host makes as a lab of its own: each half is a link that leads nowhere in it, to be continued to the
    /// other host.
    pub fn into_lab(self) -> (Plan, Vec<FarEnd>) {
        let Part { mut plan, halves, .. } = self;
        let known = plan.links.iter().map(|link| link.id).chain(halves.iter().filter_map(|h| h.id));
        // Links between pieces of switches are in no plan, and have no ids but those that they get here.
        let mut next = known.max().map_or(0, |id| id.get() + 1);
        let mut far = Vec::with_capacity(halves.len());
        for half in halves {
            let id = half.id.unwrap_or_else(|| {
                next += 1;
                LinkId::new(next - 1)
            });
            let slot = LinkSlot::new(plan.links.len());
            if let PlannedEnd::Node { node, interface } = &half.end
                && let Some(node) = plan.nodes.get_mut(node.get())
                && let Some(interface) = node.interfaces.get_mut(*interface)
            {
                interface.link = slot;
            }
            let side = 1 - half.side;
            let nowhere = PlannedEnd::Nowhere {
                name: format!("nlf{}", super::form::number_of((id, side))),
                mac: mac_of(&plan.lab, &half.far, &half.name),
            };
            let mut ends = [half.end, nowhere];
            let mut impairments = [half.impairments, Impairments::default()];
            if side == 0 {
                ends.swap(0, 1);
                impairments.swap(0, 1);
            }
            plan.links.push(PlannedLink { id, name: half.name, ends, mtu: half.mtu, impairments });
            far.push(FarEnd {
                link: id,
                side,
                number: half.number,
                peer: half.peer,
                end: half.far,
            });
        }
        plan.digest = format!("{:016x}", digest_of(&mut plan));
        (plan, far)
    }
}

impl Placement {
    /// A placement of a plan: by node the index of a host, by switch those of its pieces, which are at least one.
    ///
    /// # Errors
    /// [`MISFIT`] where it has other nodes, switches or hosts.
    pub fn new(
        plan: &Plan,
        hosts: Vec<String>,
        nodes: Vec<usize>,
        switches: Vec<Vec<usize>>,
    ) -> Result<Placement, &'static str> {
        let known = |host: &usize| *host < hosts.len();
        let once = |pieces: &Vec<usize>| {
            let mut sorted = pieces.clone();
            sorted.sort_unstable();
            sorted.dedup();
            !pieces.is_empty() && sorted.len() == pieces.len() && pieces.iter().all(known)
        };
        // What lives in a node is where that is.
        let inside = plan.nodes.iter().zip(&nodes).all(|(node, host)| {
            node.parent.is_none_or(|parent| nodes.get(parent.get()) == Some(host))
        });
        // Else numbers could run out.
        let pieces: usize = switches.iter().map(Vec::len).sum();
        let fits = pieces <= MAX_NODES + 2 * MAX_LINKS
            && nodes.len() == plan.nodes.len()
            && switches.len() == plan.switches.len()
            && nodes.iter().all(known)
            && switches.iter().all(once)
            && inside;
        fits.then_some(Placement { hosts, nodes, switches }).ok_or(MISFIT)
    }

    /// Everything on one host.
    pub fn on_one(plan: &Plan, host: &str) -> Placement {
        Placement {
            hosts: vec![host.to_owned()],
            nodes: vec![0; plan.nodes.len()],
            switches: vec![vec![0]; plan.switches.len()],
        }
    }

    /// Names of the hosts.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The host of a node, an index.
    pub fn of_node(&self, node: Slot) -> Option<usize> {
        self.nodes.get(node.get()).copied()
    }

    /// The hosts of a switch's pieces, indexes: one, unless it is split.
    pub fn of_switch(&self, switch: SwitchSlot) -> &[usize] {
        self.switches.get(switch.get()).map_or(&[], Vec::as_slice)
    }

    /// By end of a link: the host that makes it. A port of a split switch is at the piece on the other end's host, if there is
    /// one; doors and nothing are where the other end is.
    fn of_ends(&self, ends: &[PlannedEnd; 2]) -> [usize; 2] {
        let pieces = [0, 1].map(|side| self.of_end(&ends[side]));
        let one = |of: &[usize], other: &[usize]| {
            let near = of.iter().find(|host| other.contains(host));
            near.or(of.first()).copied()
        };
        let [first, second] = [one(pieces[0], pieces[1]), one(pieces[1], pieces[0])];
        let any = first.or(second).unwrap_or_default();
        [first.unwrap_or(any), second.unwrap_or(any)]
    }

    /// The hosts that could make an end; none if that follows from the other end.
    fn of_end(&self, end: &PlannedEnd) -> &[usize] {
        match end {
            PlannedEnd::Node { node, .. } => {
                self.nodes.get(node.get()).map_or(&[], std::slice::from_ref)
            }
            PlannedEnd::Port { switch, .. } => self.of_switch(*switch),
            PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } | PlannedEnd::Nowhere { .. } => {
                &[]
            }
        }
    }
}

/// A link between two pieces of a switch.
struct Trunk {
    crossing: Crossing,
    ports: [PlannedEnd; 2],
}

impl Plan {
    /// The number of each link, in the order of the plan.
    pub fn link_numbers(&self) -> Vec<u32> {
        let mut slots = Slots::new(NUMBERS);
        self.links.iter().map(|link| take(&mut slots, &link.name)).collect()
    }

    /// The links between hosts: those of the plan in its order, then those between pieces of switches.
    pub fn crossings(&self, placement: &Placement) -> Vec<Crossing> {
        let mut slots = Slots::new(NUMBERS);
        let across = self.across(placement, &mut slots);
        across
            .into_iter()
            .chain(self.trunks(placement, &mut slots).into_iter().map(|t| t.crossing))
            .collect()
    }

    fn across(&self, placement: &Placement, slots: &mut Slots) -> Vec<Crossing> {
        let mut found = Vec::new();
        for (slot, link) in self.link_slots().zip(&self.links) {
            let number = take(slots, &link.name);
            let hosts = placement.of_ends(&link.ends);
            if hosts[0] != hosts[1] {
                let name = link.name.clone();
                found.push(Crossing { name, number, hosts, link: Some(slot), mtu: link.mtu });
            }
        }
        found
    }

    /// The interfaces of hosts that are bridged in.
    fn doors(&self) -> impl Iterator<Item = String> {
        self.links.iter().flat_map(|link| &link.ends).filter_map(|end| match end {
            PlannedEnd::Host { iface } => Some(iface.clone()),
            _ => None,
        })
    }

    fn trunks(&self, placement: &Placement, slots: &mut Slots) -> Vec<Trunk> {
        let mut found = Vec::new();
        let host = |at: usize| placement.hosts.get(at).map_or("", String::as_str);
        // Of the names in the core namespaces only those of the hosts' own interfaces can have an `@` after an x.
        let mut names = CoreNames::with_taken(self.doors());
        for (switch, pieces) in self.switch_slots().zip(&placement.switches) {
            let Some(planned) = self.switch_at(switch) else { continue };
            for other in pieces.iter().skip(1) {
                let ends = [pieces[0], *other];
                let [a, b] = ends.map(|at| format!("{}@{}", planned.name, host(at)));
                let name = format!("{a}--{b}");
                let number = take(slots, &name);
                let ports = [a, b].map(|end| PlannedEnd::Port {
                    switch,
                    name: names.take_like(&format!("x@{number}")),
                    mac: mac_of(&self.lab, &end, &name),
                    number: None,
                    numbered: false,
                });
                let crossing = Crossing { name, number, hosts: ends, link: None, mtu: planned.mtu };
                found.push(Trunk { crossing, ports });
            }
        }
        found
    }

    /// What a host, by index, makes of this plan. Empty for a host that the placement lacks.
    pub fn part(&self, placement: &Placement, host: usize) -> Part {
        Parting::new(self, placement, host).part()
    }
}

/// A host's part while it is made.
struct Parting<'p> {
    whole: &'p Plan,
    placement: &'p Placement,
    host: usize,
    nodes: Renumbered,
    switches: Renumbered,
}

impl<'p> Parting<'p> {
    fn new(whole: &'p Plan, placement: &'p Placement, host: usize) -> Parting<'p> {
        let is_here = |node: Slot| placement.of_node(node) == Some(host);
        let has_piece = |switch: SwitchSlot| placement.of_switch(switch).contains(&host);
        let nodes = Renumbered::new(whole.slots().map(is_here));
        let switches = Renumbered::new(whole.switch_slots().map(has_piece));
        Parting { whole, placement, host, nodes, switches }
    }

    fn part(&self) -> Part {
        Part { host: self.name(self.host), plan: self.inner(), halves: self.halves() }
    }

    fn name(&self, host: usize) -> String {
        self.placement.hosts.get(host).cloned().unwrap_or_default()
    }

    /// The nodes and switches, and the links that stay.
    fn inner(&self) -> Plan {
        let whole = self.whole;
        let stays = |ends: &[PlannedEnd; 2]| self.placement.of_ends(ends) == [self.host; 2];
        let links = Renumbered::new(whole.links.iter().map(|link| stays(&link.ends)));
        let mut plan = Plan {
            lab: whole.lab.clone(),
            next_id: whole.next_id,
            record: whole.record,
            hosts: whole.hosts.clone(),
            nodes: self.nodes.select(&whole.nodes),
            switches: self.switches.select(&whole.switches),
            links: links.select(&whole.links),
            ..Plan::default()
        };
        let here = |name: &String| plan.switches.iter().any(|switch| switch.name == *name);
        let sliced = whole.slices.iter().filter(|slice| slice.switches.keys().any(here));
        plan.slices = sliced.cloned().collect();
        for link in &mut plan.links {
            link.ends = [0, 1].map(|side| self.moved(&link.ends[side]));
        }
        for node in &mut plan.nodes {
            if let Some(parent) = node.parent {
                node.parent = self.nodes.slot(parent);
            }
            for interface in &mut node.interfaces {
                interface.link = links.link(interface.link).unwrap_or(LinkSlot::NOT_SHOWN);
            }
        }
        plan.digest = format!("{:016x}", digest_of(&mut plan));
        plan
    }

    fn halves(&self) -> Vec<LinkHalf> {
        let mut slots = Slots::new(NUMBERS);
        let mut found = Vec::new();
        for crossing in self.whole.across(self.placement, &mut slots) {
            let Some(link) = crossing.link.and_then(|slot| self.whole.link_at(slot)) else {
                continue;
            };
            let Some(side) = self.side(&crossing) else { continue };
            let far = self.whole.end_text(&link.ends[1 - side]);
            let half = self.half(crossing, side, &link.ends[side], far);
            found.push(LinkHalf {
                id: Some(link.id),
                impairments: link.impairments[side].clone(),
                ..half
            });
        }
        for Trunk { crossing, ports } in self.whole.trunks(self.placement, &mut slots) {
            let Some(side) = self.side(&crossing) else { continue };
            let far = self.whole.end_text(&ports[1 - side]);
            found.push(self.half(crossing, side, &ports[side], far));
        }
        found
    }

    /// The end of a link across that is made here.
    fn side(&self, crossing: &Crossing) -> Option<usize> {
        crossing.hosts.iter().position(|host| *host == self.host)
    }

    fn half(&self, of: Crossing, side: usize, end: &PlannedEnd, far: String) -> LinkHalf {
        LinkHalf {
            number: of.number,
            id: None,
            end: self.moved(end),
            far,
            side,
            peer: self.name(of.hosts[1 - side]),
            mtu: of.mtu,
            impairments: Impairments::default(),
            name: of.name,
        }
    }

    /// An end with slots of the part.
    fn moved(&self, end: &PlannedEnd) -> PlannedEnd {
        let mut end = end.clone();
        match &mut end {
            PlannedEnd::Node { node, .. } => {
                *node = self.nodes.slot(*node).unwrap_or(Slot::NOT_SHOWN);
            }
            PlannedEnd::Port { switch, .. } => {
                let place = self.switches.of(switch.get()).unwrap_or(usize::MAX);
                *switch = SwitchSlot::new(place);
            }
            PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } | PlannedEnd::Nowhere { .. } => {}
        }
        end
    }
}

/// The number of a name; never 0.
fn take(slots: &mut Slots, name: &str) -> u32 {
    // There are 16 times as many numbers as links and pieces of switches may be.
    let slot = slots.take(hash(&["link", name])).unwrap_or_default();
    u32::try_from(slot + 1).unwrap_or(u32::MAX)
}

/// A locally administered MAC. Only the bridge has it, whose own address is the switch's.
fn mac_of(lab: &str, end: &str, name: &str) -> [u8; 6] {
    let [.., a, b, c, d, e] = hash(&["mac", lab, "trunk", end, name]).to_be_bytes();
    [0x02, a, b, c, d, e]
}
