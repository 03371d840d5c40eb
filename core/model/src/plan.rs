//! The complete list of objects to make: the lab with every name, MAC, address and route decided.
//!
//! A plan is a pure function of the [`Lab`]. Automatic addresses are derived from names, so
//! adding a link at the end of the file never changes those of the others, unless it assigns
//! by hand a name, address or prefix already in use, or joins two
//! switches. One module per decision: `names`, `mac`, `segment`, `pool`, `address`, `graph`,
//! `shortest`, `route`, `by_hand`, `sysctl`, `hosts`; `build` puts them together. `change`, `linking` and
//! `subtree` are for running labs.

mod address;
mod blocking;
mod build;
mod by_hand;
mod change;
mod door;
mod error;
mod family;
pub mod form;
pub mod frr;
mod graph;
mod hash;
mod hints;
pub(crate) mod hosts;
mod isolated;
mod linking;
pub(crate) mod mac;
pub(crate) mod names;
mod neighbours;
mod part;
mod places;
mod pool;
pub mod port_names;
pub(crate) mod ports;
mod route;
mod scheme;
pub(crate) mod segment;
mod sharing;
mod shortest;
mod sliced;
mod slots;
mod stored;
mod subtree;
mod sysctl;
#[cfg(test)]
pub(crate) mod tests;
mod validate;
mod weight;

pub use crate::ids::{LinkId, LinkSide, LinkSlot, NodeId, Slot, SwitchSlot};
pub(crate) use build::build;
pub use door::WayBack;
pub use error::{PlanError, WIRE_AT_DOOR};
pub use hints::{Hint, hints, hints_on_nodes};
pub use hosts::HostAddress;
pub use linking::{NewEnd, NewLink};
pub use neighbours::Neighbours;
pub use part::{Crossing, FarEnd, LinkHalf, MISFIT, PRESENCE_NUMBER, Part, Placement};
pub(crate) use ports::ends_of_switches;
pub use scheme::{Numbering, Scheme};
pub use sysctl::is_of_an_interface;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use netloom_impair::Impairments;

use crate::kinds::SwitchKind;
use crate::lab::{Lab, NodeSpec, Record};
use crate::slices::Slice;

/// Decides everything a lab leaves open.
///
/// # Errors
/// [`PlanError`] when addresses run out or clash, a bridge would have too many ports, or a route by
/// hand leads nowhere; it names the object.
pub fn plan(lab: &Lab) -> Result<Plan, PlanError> {
    let mut plan = build(lab)?;
    // The text of the file belongs to the running lab, not to what is compared.
    if let Some(scheme) = &mut plan.scheme {
        scheme.file = Some(crate::write::write(lab, "").into());
    }
    Ok(plan)
}

/// Index of the first interface of a namespace after `lo`.
pub(crate) const FIRST_INDEX: u32 = 2;

/// Ethernet's MTU.
const DEFAULT_MTU: u32 = 1500;

/// Every object of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Plan {
    /// The lab's name.
    pub lab: String,
    /// Identifies the plan's content: equal plans have equal digests (hex, 16 digits). Changes of
    /// the running lab do not alter it.
    pub digest: String,
    /// The id of the next node to be added; not part of the digest.
    pub next_id: NodeId,
    /// In the order of the file, then those made later; parents before their children.
    pub nodes: Vec<PlannedNode>,
    /// In the order of the file.
    pub switches: Vec<PlannedSwitch>,
    /// In the order of the file.
    pub links: Vec<PlannedLink>,
    /// Slices of OpenFlow switches, in the order of the file; their ports by name, see [`Plan::ports_of_slices`].
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::slices::stored::slices"
    )]
    pub slices: Vec<Slice>,
    /// How all links are recorded while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// The text of `/etc/hosts` in every node, while nodes have the addresses of the plan.
    pub hosts: String,
    /// How links made later get addresses and routes; not part of the digest. Absent in
    /// the view of a part of a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
}

/// A node to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlannedNode {
    /// Its identity on the machine for its lifetime: initially in the file's order, never reused.
    pub id: NodeId,
    /// What the lab says of it.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = NodeSpec))]
    pub spec: Arc<NodeSpec>,
    /// Sysctls as paths below `/proc/sys/`, in order of writing: netloom's own, then the file's. A path
    /// with a leading `-` is written if the kernel accepts it, and skipped otherwise.
    /// All are written before the node has interfaces, except those of one interface, which
    /// are written after.
    pub sysctls: Vec<(String, String)>,
    /// In the order of the links; unnamed ones are `eth0, eth1, …`.
    pub interfaces: Vec<Interface>,
    /// Routes to install, excluding connected ones.
    pub routes: Vec<Route>,
    /// Whether it reaches the host's network by NAT, so that it needs the host's name servers.
    pub internet: bool,
}

impl Deref for PlannedNode {
    type Target = NodeSpec;

    fn deref(&self) -> &NodeSpec {
        &self.spec
    }
}

impl DerefMut for PlannedNode {
    fn deref_mut(&mut self) -> &mut NodeSpec {
        // Shared until a node is changed.
        Arc::make_mut(&mut self.spec)
    }
}

/// An interface of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Interface {
    /// Its name in the node, at most 15 bytes.
    pub name: String,
    /// Its initial interface index in the node: from 2, in the order of the links.
    pub index: u32,
    /// The link it is an end of: index into the plan's links; `null` in JSON for one that is not shown.
    #[serde(with = "shown")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<usize>))]
    pub link: LinkSlot,
    /// Its MAC: locally administered, from lab, node and interface name.
    #[serde(with = "netloom_form::mac")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Mac))]
    pub mac: [u8; 6],
    /// The file gives that MAC.
    #[serde(default, skip_serializing_if = "crate::lab::is_not")]
    pub mac_given: bool,
    /// MTU in bytes.
    pub mtu: u32,
    /// Address with the segment's prefix length.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub addresses: Vec<IpNet>,
}

impl Interface {
    /// Whether a file gives one of the two a MAC that the other does not have. Others follow from names, and those of
    /// a living interface stay as they are.
    pub(crate) fn is_given_other_mac(&self, other: &Interface) -> bool {
        (self.mac_given || other.mac_given) && self.mac != other.mac
    }
}

/// The place of a link, or `null` for [`LinkSlot::NOT_SHOWN`].
mod shown {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::LinkSlot;

    pub(super) fn serialize<S: Serializer>(link: &LinkSlot, to: S) -> Result<S::Ok, S::Error> {
        (*link != LinkSlot::NOT_SHOWN).then_some(*link).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<LinkSlot, D::Error> {
        Option::deserialize(from).map(|link| link.unwrap_or(LinkSlot::NOT_SHOWN))
    }
}

/// A route of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Route {
    /// Destination, `0.0.0.0/0` or `::/0` for a default route.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub to: IpNet,
    /// Next hop; on-link if absent.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub via: Option<IpAddr>,
    /// The outgoing interface: index into the node's interfaces.
    pub interface: usize,
    /// Further next hops of equal cost: each flow takes one of them all.
    #[serde(default, skip_serializing_if = "is_empty", with = "sharing")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<NextHop>))]
    pub also: Arc<[NextHop]>,
}

/// One of several next hops of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NextHop {
    /// The router.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub via: IpAddr,
    /// The outgoing interface: index into the node's interfaces.
    pub interface: usize,
}

fn is_empty(hops: &Arc<[NextHop]>) -> bool {
    hops.is_empty()
}

impl Route {
    /// A route with one next hop.
    pub fn single(to: IpNet, via: Option<IpAddr>, interface: usize) -> Route {
        Route { to, via, interface, also: Arc::default() }
    }
}

/// A switch to make: a kernel bridge in the lab's core namespace, or a shared-memory switch, which has
/// no interface of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlannedSwitch {
    /// Its name in the lab.
    pub name: String,
    /// The bridge's interface index in the core namespace: from 2.
    pub index: u32,
    /// The bridge's name in the core namespace: the switch's name if it fits, at most 15 bytes.
    pub bridge: String,
    /// Its locally administered MAC.
    #[serde(with = "netloom_form::mac")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Mac))]
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: u32,
    /// Whether those of its ports that close loops are blocked, as a bridge's can be.
    #[serde(default, skip_serializing_if = "crate::lab::is_not")]
    pub stp: bool,
    /// Its kind, with options.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = crate::kinds::Stored))]
    pub kind: SwitchKind,
}

/// A link to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlannedLink {
    /// Its identity on the machine for its lifetime.
    pub id: LinkId,
    /// `A:eth0--B:eth1`, or the name by hand. A switch's end reads `s1`, a door's `host:eth1`
    /// or `internet`.
    pub name: String,
    /// In the order of the file.
    pub ends: [PlannedEnd; 2],
    /// MTU in bytes.
    pub mtu: u32,
    /// Its impairments: index 0 for frames that the first end sends, 1 for the second.
    pub impairments: [Impairments; 2],
}

/// One end of a link to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum PlannedEnd {
    /// An interface of a node.
    Node {
        /// The node.
        node: Slot,
        /// Index into the node's interfaces.
        interface: usize,
    },
    /// A port of a bridge in the core namespace.
    Port {
        /// Index into the plan's switches.
        #[cfg_attr(feature = "schema", schema(value_type = usize))]
        switch: SwitchSlot,
        /// The port's interface name in the core namespace: unique there, at most 15 bytes.
        name: String,
        /// Its locally administered MAC.
        #[serde(with = "netloom_form::mac")]
        #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Mac))]
        mac: [u8; 6],
        /// Its number on a switch whose ports have numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
        /// The file gives that number.
        #[serde(default, skip_serializing_if = "crate::lab::is_not")]
        numbered: bool,
    },
    /// A port of a bridge that holds this interface of the host.
    Host {
        /// Name of the host's interface.
        iface: String,
    },
    /// The host's side of a NAT door.
    Internet {
        /// The host's addresses on the segment, with its prefix length; they are the gateways.
        #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
        addresses: Vec<IpNet>,
    },
    /// An interface of the core namespace that belongs to no switch: what comes there ends.
    Nowhere {
        /// Its name in the core namespace: unique there, at most 15 bytes.
        name: String,
        /// Its locally administered MAC.
        #[serde(with = "netloom_form::mac")]
        #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Mac))]
        mac: [u8; 6],
    },
}

impl PlannedEnd {
    /// Whether it is an interface of the core namespace, as far as the plan says.
    pub fn is_in_core(&self) -> bool {
        matches!(self, PlannedEnd::Port { .. } | PlannedEnd::Nowhere { .. })
    }

    /// The number that the file gives a port.
    pub fn given_number(&self) -> Option<u32> {
        match self {
            PlannedEnd::Port { number, numbered: true, .. } => *number,
            _ => None,
        }
    }
}

impl Plan {
    /// The slot of a node by name.
    pub fn node(&self, name: &str) -> Option<Slot> {
        self.nodes.iter().position(|n| n.name == name).map(Slot::new)
    }

    /// The addresses of a node by name, those of its loopback interface among them.
    pub fn addresses_of(&self, name: &str) -> Option<Vec<IpAddr>> {
        let all = self.nodes[self.node(name)?].all_addresses();
        Some(all.map(|address| address.addr()).collect())
    }

    /// The slot of a node by its id.
    pub fn slot_of(&self, id: NodeId) -> Option<Slot> {
        self.nodes.iter().position(|n| n.id == id).map(Slot::new)
    }

    /// The node at a slot.
    pub fn node_at(&self, slot: Slot) -> Option<&PlannedNode> {
        self.nodes.get(slot.get())
    }

    /// The slot after the last node's: that of the lab's core namespace, when it is made like a node.
    pub fn core_slot(&self) -> Slot {
        Slot::new(self.nodes.len())
    }

    /// All slots of nodes, in order.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = Slot> + ExactSizeIterator + use<> {
        (0..self.nodes.len()).map(Slot::new)
    }

    /// The text of `/etc/hosts`. `known` has the current addresses of nodes, if they may have changed, in
    /// order of preference.
    pub fn hosts_with<'a>(
        &'a self,
        known: impl Fn(&'a PlannedNode) -> Option<Vec<HostAddress<'a>>>,
    ) -> String {
        hosts::text(&self.nodes, known)
    }

    /// The lines of `/etc/hosts` of nodes that another plan does not have: those that another host makes.
    pub fn hosts_beyond(&self, part: &Plan) -> String {
        let own: HashSet<&str> = part.nodes.iter().map(|node| node.name.as_str()).collect();
        let text = self.hosts_with(|node| own.contains(node.name.as_str()).then(Vec::new));
        text.strip_prefix(hosts::LOCALHOST).map(str::to_owned).unwrap_or(text)
    }

    /// Whether a node or a switch has this name.
    pub fn is_taken(&self, name: &str) -> bool {
        self.node(name).is_some() || self.switches.iter().any(|s| s.name == name)
    }

    /// The end of a link in words: `NODE:IFACE`, `SWITCH`, `host:IFACE`, `internet` or `nowhere`. Missing objects give
    /// empty text.
    pub fn end_text(&self, end: &PlannedEnd) -> String {
        match end {
            PlannedEnd::Node { node, interface } => {
                let node = self.node_at(*node);
                let interface = node.and_then(|node| node.interfaces.get(*interface));
                let names = (node.map_or("", |n| &n.name), interface.map_or("", |i| &i.name));
                format!("{}:{}", names.0, names.1)
            }
            PlannedEnd::Port { switch, .. } => {
                self.switch_at(*switch).map_or_else(String::new, |s| s.name.clone())
            }
            PlannedEnd::Host { iface } => format!("host:{iface}"),
            PlannedEnd::Internet { .. } => "internet".to_owned(),
            PlannedEnd::Nowhere { .. } => "nowhere".to_owned(),
        }
    }

    /// The place of a link by name.
    pub fn link(&self, name: &str) -> Option<LinkSlot> {
        self.links.iter().position(|l| l.name == name).map(LinkSlot::new)
    }

    /// The place of a link by its id.
    pub fn link_slot_of(&self, id: LinkId) -> Option<LinkSlot> {
        self.links.iter().position(|l| l.id == id).map(LinkSlot::new)
    }

    /// The link at a place.
    pub fn link_at(&self, slot: LinkSlot) -> Option<&PlannedLink> {
        self.links.get(slot.get())
    }

    /// All places of links, in order.
    pub fn link_slots(
        &self,
    ) -> impl DoubleEndedIterator<Item = LinkSlot> + ExactSizeIterator + use<> {
        (0..self.links.len()).map(LinkSlot::new)
    }

    /// The place of a switch by name.
    pub fn switch(&self, name: &str) -> Option<SwitchSlot> {
        self.switches.iter().position(|s| s.name == name).map(SwitchSlot::new)
    }

    /// All places of switches, in order.
    pub fn switch_slots(
        &self,
    ) -> impl DoubleEndedIterator<Item = SwitchSlot> + ExactSizeIterator + use<> {
        (0..self.switches.len()).map(SwitchSlot::new)
    }

    /// The switch at a place.
    pub fn switch_at(&self, slot: SwitchSlot) -> Option<&PlannedSwitch> {
        self.switches.get(slot.get())
    }
}

impl PlannedNode {
    /// Its sysctls that follow from routes with several next hops.
    pub fn settings_of_routes(&self) -> Vec<(String, String)> {
        sysctl::of_several_ways(&self.name, &self.routes)
    }

    /// Whether it has sysctls beside netloom's own, which are written after these.
    pub fn has_sysctls_of_file(&self) -> bool {
        self.sysctls.len() > sysctl::number_of_own(self)
    }

    /// Its sysctls that the lab file gives.
    pub fn sysctls_of_file(&self) -> &[(String, String)] {
        self.sysctls.get(sysctl::number_of_own(self)..).unwrap_or_default()
    }

    /// The name of the switch that is the plane of a router; no switch of a file can have it.
    pub fn plane_name(&self) -> String {
        format!("@{}", self.id)
    }

    /// Its name without its parents' names.
    pub fn last_name(&self) -> &str {
        self.name.rsplit_once('/').map_or(&self.name, |(_, last)| last)
    }

    /// Its host name: that by hand, else its name without its parents' names.
    pub fn host_name(&self) -> &str {
        self.hostname.as_deref().unwrap_or_else(|| self.last_name())
    }

    /// Every planned address: those of its interfaces, then those of loopback.
    pub fn all_addresses(&self) -> impl Iterator<Item = &IpNet> {
        self.interfaces.iter().flat_map(|i| &i.addresses).chain(&self.loopback)
    }

    /// The IPv4 address its name resolves to: the first one of its interfaces.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.all_addresses().find_map(|a| match a.addr() {
            IpAddr::V4(a) => Some(a),
            IpAddr::V6(_) => None,
        })
    }

    /// The IPv6 address its name resolves to: the first one of its interfaces.
    pub fn ipv6(&self) -> Option<Ipv6Addr> {
        self.all_addresses().find_map(|a| match a.addr() {
            IpAddr::V6(a) => Some(a),
            IpAddr::V4(_) => None,
        })
    }
}
