//! Whether a plan from elsewhere can be relied on.
//!
//! Every place in it exists, relations agree from both sides, parents come before their children, names and numbers are ones
//! that a lab file could give, and nothing has the identity of another. So what reads a checked plan may follow its places
//! without a look and without a bound. One pass, in a time that grows with the plan's size alone.

mod node;
mod switch;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::form::{FIRST_HIDDEN, FIRST_PORT};
use super::{
    FIRST_INDEX, LinkSlot, NodeId, Plan, PlannedEnd, PlannedLink, PlannedNode, Scheme, Slot,
};
use crate::bounds::{MAX_DEPTH, MAX_LINKS, MAX_NODES};
use crate::file::values::unusable;
use crate::kinds::openflow;
use crate::lab::Record;
use crate::naming::{interface_name_problem, node_name_problem, whole_name_problem};

/// More identities than any lab gives away in its life.
const MOST_IDS: usize = 1 << 30;

/// MTUs of links.
const MTUS: std::ops::RangeInclusive<u32> = 68..=65535;

/// The longest name of a link: two ends of the longest names, and a number.
const LONGEST_LINK: usize = 600;

/// The fault, if there is one.
type Checked = Result<(), String>;

fn no<T>(problem: impl Into<String>) -> Result<T, String> {
    Err(problem.into())
}

/// Values of which each may occur once.
struct Once<T>(HashSet<T>);

impl<T: Eq + Hash + Debug + Copy> Once<T> {
    fn new() -> Once<T> {
        Once(HashSet::new())
    }

    fn take(&mut self, value: T, what: &str) -> Checked {
        if self.0.insert(value) {
            Ok(())
        } else {
            no(format!("there are two of the {what} {value:?}"))
        }
    }
}

fn at_most(count: usize, most: usize, what: &str) -> Checked {
    if count <= most { Ok(()) } else { no(format!("{count} {what}, {most} are allowed")) }
}

impl Plan {
    /// The fault of a plan; `None` for every plan that was made of a lab, and for later states of one.
    pub fn problem(&self) -> Option<String> {
        self.check().err()
    }

    fn check(&self) -> Checked {
        at_most(self.nodes.len(), MAX_NODES, "nodes")?;
        at_most(self.switches.len(), MAX_NODES, "switches")?;
        at_most(self.links.len(), MAX_LINKS, "links")?;
        let next = self.scheme.as_ref().map_or(0, |scheme| scheme.next_link.get());
        if self.next_id.get().max(next) > MOST_IDS {
            return no("more ids were given away than any lab has");
        }
        let mut names = Once::new();
        // Nodes and switches share one set of names: the commands name either without its kind.
        self.check_nodes(&mut names)?;
        for switch in &self.switches {
            let of = |problem| format!("switch {:?}: {problem}", switch.name);
            names.take(switch.name.as_str(), "name")?;
            switch::check(switch).map_err(of)?;
        }
        self.check_ports_of_host()?;
        self.check_bridges()?;
        self.check_links()?;
        switch::check_slices(self)?;
        if self.record.is_some_and(|record| record.keep < Record::LEAST) {
            return no("a recording keeps at least 4MiB");
        }
        self.scheme.as_ref().map_or(Ok(()), |scheme| self.check_scheme(scheme))
    }

    fn check_nodes<'p>(&'p self, names: &mut Once<&'p str>) -> Checked {
        let mut ids = Once::new();
        for (slot, node) in self.slots().zip(&self.nodes) {
            let of = |problem| format!("node {:?}: {problem}", node.name);
            self.check_place(slot, node).map_err(of)?;
            names.take(node.name.as_str(), "name")?;
            ids.take(node.id, "id")?;
            if node.id >= self.next_id {
                return no(of(format!("its id {} was never given away", node.id)));
            }
            self.check_interfaces(slot, node).map_err(of)?;
            node::check(node).map_err(of)?;
        }
        Ok(())
    }

    /// A node's name says in which one it lives, and that one comes before it.
    fn check_place(&self, slot: Slot, node: &PlannedNode) -> Checked {
        let problem = node.name.split('/').find_map(node_name_problem);
        if let Some(problem) = problem.or_else(|| whole_name_problem(&node.name)) {
            return no(problem);
        }
        at_most(node.name.split('/').count(), MAX_DEPTH, "nodes live in each other")?;
        let of_name = node.name.rsplit_once('/').map(|(parent, _)| parent);
        // A parent before its child rules out circles, and lets the lab be built in one pass.
        let parent = node.parent.filter(|parent| *parent < slot);
        let parent = parent.and_then(|parent| self.node_at(parent));
        if node.parent.is_some() != parent.is_some() {
            return no("comes before the one that it lives in");
        }
        if parent.map(|parent| parent.name.as_str()) != of_name {
            return no("does not live in the parent that its name gives");
        }
        match parent {
            Some(parent) if parent.children.is_none() => {
                no("the one that it lives in has no `children`")
            }
            _ => Ok(()),
        }
    }

    fn check_interfaces(&self, slot: Slot, node: &PlannedNode) -> Checked {
        let (mut names, mut indexes) = (Once::new(), Once::new());
        for (at, own) in node.interfaces.iter().enumerate() {
            if let Some(problem) = interface_name_problem(&own.name) {
                return no(problem);
            }
            names.take(own.name.as_str(), "interface")?;
            indexes.take(own.index, "index")?;
            // Index 1 is `lo`'s; links choose those from `FIRST_HIDDEN` on for their hidden interfaces.
            if !(FIRST_INDEX..FIRST_HIDDEN).contains(&own.index) || !MTUS.contains(&own.mtu) {
                return no(format!("interface {:?}: index or mtu cannot be used", own.name));
            }
            // Both must name each other, because code follows the places from either side.
            let this = |end: &PlannedEnd| matches!(end, PlannedEnd::Node { node, interface } if *node == slot && *interface == at);
            let link = self.link_at(own.link);
            if own.link != LinkSlot::NOT_SHOWN
                && !link.is_some_and(|link| link.ends.iter().any(this))
            {
                return no(format!("interface {:?} is not an end of its link", own.name));
            }
        }
        let leads = |at: usize| at < node.interfaces.len();
        for route in &node.routes {
            let fits = |via: &IpAddr| via.is_ipv4() == route.to.addr().is_ipv4();
            let problem =
                if !leads(route.interface) || !route.also.iter().all(|hop| leads(hop.interface)) {
                    "leads nowhere"
                } else if !route.via.iter().chain(route.also.iter().map(|hop| &hop.via)).all(fits) {
                    "has a next hop of the other family"
                // Linux refuses such a route of IPv4, and cuts the bits off one of IPv6.
                } else if route.to.trunc() != route.to {
                    "has bits that are not of the network"
                } else {
                    continue;
                };
            return no(format!("the route to {} {problem}", route.to));
        }
        let addresses = node.all_addresses().map(|net| (net, unusable(net)));
        let wrong = addresses.filter_map(|(net, why)| Some(format!("address {net} {}", why?)));
        wrong.into_iter().next().map_or(Ok(()), no)
    }

    /// No two ports of the host are one. [`Published::clashes`](crate::published::Published::clashes), for many.
    fn check_ports_of_host(&self) -> Checked {
        let (mut places, mut every, mut any) = (HashSet::new(), HashSet::new(), HashSet::new());
        for node in &self.nodes {
            for port in &node.ports {
                // The kernel refuses to bind an address beside the wildcard of its family, in either order.
                // The kernel refuses to bind an address beside the wildcard of its family, in
                // either order.
                let all = port.places();
                let of = |at: &SocketAddr| (port.protocol, at.is_ipv4(), at.port());
                // Those of one port do not clash.
                let clash = all.iter().any(|at| {
                    let whole = at.ip().is_unspecified();
                    let taken = if whole { any.contains(&of(at)) } else { every.contains(&of(at)) };
                    taken || places.contains(&(port.protocol, *at))
                });
                if clash {
                    let words = "it, or all addresses, is published already";
                    return no(format!("node {:?}: port {port}: {words}", node.name));
                }
                for at in &all {
                    places.insert((port.protocol, *at));
                    any.insert(of(at));
                    if at.ip().is_unspecified() {
                        every.insert(of(at));
                    }
                }
            }
        }
        Ok(())
    }

    /// Names and indexes in the core namespace.
    fn check_bridges(&self) -> Checked {
        let (mut names, mut indexes) = (Once::new(), Once::new());
        // What no bridge realises may have neither.
        for switch in self.switches.iter().filter(|switch| !switch.bridge.is_empty()) {
            if let Some(problem) = interface_name_problem(&switch.bridge) {
                return no(format!("switch {:?}: {problem}", switch.name));
            }
            names.take(switch.bridge.as_str(), "bridge")?;
            indexes.take(switch.index, "bridge's index")?;
        }
        let without = self.switches.iter().find(|s| s.bridge.is_empty() && s.kind.is_bridge());
        if let Some(switch) = without {
            return no(format!("switch {:?}: its bridge has no name", switch.name));
        }
        // Those of ports follow, and `lo` is before them: all live in the core namespace.
        let wrong = indexes.0.iter().find(|index| !(FIRST_INDEX..FIRST_PORT).contains(*index));
        wrong.map_or(Ok(()), |index| no(format!("a bridge's index is {index}")))
    }

    fn check_links(&self) -> Checked {
        let (mut names, mut ids) = (Once::new(), Once::new());
        let (mut core, mut hosts) = (Once::new(), Once::new());
        // The view of a part of a lab has no scheme, and so does not know which ids were given.
        let next = self.scheme.as_ref().map_or(MOST_IDS, |scheme| scheme.next_link.get());
        let mut ports: HashMap<usize, Once<u32>> = HashMap::new();
        let mut counts: HashMap<usize, usize> = HashMap::new();
        for (at, link) in self.link_slots().zip(&self.links) {
            let of = |problem| format!("link {:?}: {problem}", link.name);
            names.take(link.name.as_str(), "link")?;
            ids.take(link.id, "link's id")?;
            self.check_link(at, link, next).map_err(of)?;
            for end in &link.ends {
                match end {
                    PlannedEnd::Port { switch, name, number, .. } => {
                        core.take(name.as_str(), "port").map_err(of)?;
                        let known = ports.entry(switch.get()).or_insert_with(Once::new);
                        number.map_or(Ok(()), |number| known.take(number, "number")).map_err(of)?;
                        *counts.entry(switch.get()).or_default() += 1;
                    }
                    PlannedEnd::Nowhere { name, .. } => {
                        core.take(name.as_str(), "port").map_err(of)?
                    }
                    PlannedEnd::Host { iface } => {
                        hosts.take(iface.as_str(), "host's interface").map_err(of)?
                    }
                    PlannedEnd::Node { .. } | PlannedEnd::Internet { .. } => {}
                }
            }
        }
        for (switch, count) in
            self.switches.iter().enumerate().filter_map(|(at, s)| Some((s, counts.get(&at)?)))
        {
            let of = |problem| format!("switch {:?}: {problem}", switch.name);
            at_most(*count, switch.kind.most_ports(), "ports").map_err(of)?;
        }
        Ok(())
    }

    fn check_link(&self, at: LinkSlot, link: &PlannedLink, next: usize) -> Checked {
        let named = !link.name.is_empty() && link.name.bytes().all(|byte| byte.is_ascii_graphic());
        if !named || link.name.len() > LONGEST_LINK {
            return no("its name cannot be one");
        }
        if link.id.get() >= next {
            return no(format!("its id {} was never given away", link.id));
        }
        if !MTUS.contains(&link.mtu) {
            return no(format!("mtu {} is not from {} to {}", link.mtu, MTUS.start(), MTUS.end()));
        }
        for impairments in &link.impairments {
            impairments
                .check()
                .map_err(|problem| format!("{}: {}", problem.key, problem.reason))?;
        }
        for end in &link.ends {
            self.check_end(at, end)?;
        }
        // The same rules as those of the lab file: see `parse::link`.
        match &link.ends {
            [PlannedEnd::Node { .. }, PlannedEnd::Node { .. }] if link.ends[0] == link.ends[1] => {
                no("joins an interface to itself")
            }
            [PlannedEnd::Port { switch: a, .. }, PlannedEnd::Port { switch: b, .. }] if a == b => {
                no("joins a switch to itself")
            }
            // From a switch only in a part of a lab: its other end is on another host.
            [PlannedEnd::Nowhere { .. }, PlannedEnd::Node { .. } | PlannedEnd::Port { .. }]
            | [PlannedEnd::Node { .. } | PlannedEnd::Port { .. }, PlannedEnd::Nowhere { .. }] => {
                Ok(())
            }
            ends if ends.iter().any(|end| matches!(end, PlannedEnd::Nowhere { .. })) => {
                no("a `nowhere` link needs a node or a switch at its other end")
            }
            ends if ends
                .iter()
                .any(|end| matches!(end, PlannedEnd::Node { .. } | PlannedEnd::Port { .. })) =>
            {
                Ok(())
            }
            _ => no("neither end is a node or a switch"),
        }
    }

    fn check_end(&self, link: LinkSlot, end: &PlannedEnd) -> Checked {
        let (name, number) = match end {
            PlannedEnd::Node { node, interface } => {
                let own = self.node_at(*node).and_then(|node| node.interfaces.get(*interface));
                return if own.is_some_and(|own| own.link == link) {
                    Ok(())
                } else {
                    no("an end of it is not there")
                };
            }
            PlannedEnd::Port { switch, name, number, .. } => {
                let Some(switch) = self.switch_at(*switch) else {
                    return no("an end of it is not there");
                };
                if switch.kind.numbers_ports() != number.is_some() {
                    return no("the number of a port is there if its switch has numbers for them");
                }
                // A valid number stands in where the kind has none, so that one check below serves all.
                // A valid number stands in where the kind has none, so that one check serves all.
                (name, number.unwrap_or(1))
            }
            PlannedEnd::Nowhere { name, .. } => (name, 1),
            PlannedEnd::Host { iface } => (iface, 1),
            PlannedEnd::Internet { .. } => return Ok(()),
        };
        if !(1..=openflow::MOST_NUMBER).contains(&number) {
            return no(format!("the number {number} of a port cannot be one"));
        }
        interface_name_problem(name).map_or(Ok(()), no)
    }

    fn check_scheme(&self, scheme: &Scheme) -> Checked {
        let (v4, v6) = (scheme.pool.ipv4.map(IpNet::from), scheme.pool.ipv6.map(IpNet::from));
        // The allocator's own bounds: a pool is divided by fixed lengths, see `pool`.
        for (pool, most) in [(v4, 16), (v6, 32)] {
            if let Some(pool) = pool.filter(|pool| pool.prefix_len() > most) {
                return no(format!("pool {pool}: at most /{most} is large enough"));
            }
        }
        let ids: HashSet<NodeId> = self.nodes.iter().map(|node| node.id).collect();
        let mut blocks = Once::new();
        for (node, prefix) in &scheme.blocks {
            blocks.take(prefix.trunc(), "block")?;
            // A block must hold at least one segment.
            let (pool, longest) = if prefix.addr().is_ipv4() { (v4, 30) } else { (v6, 64) };
            let within = pool.is_some_and(|pool| pool.contains(&prefix.trunc()));
            if !within || prefix.prefix_len() > longest || prefix.prefix_len() == 0 {
                return no(format!("block {prefix} of node {node} is not in the pool"));
            }
        }
        // Nodes that went may be known still, others not.
        let strange =
            scheme.routed_by_hand.iter().find(|id| !ids.contains(id) && **id >= self.next_id);
        strange.map_or(Ok(()), |id| no(format!("node {id} has routes by hand and is not there")))
    }
}

#[cfg(test)]
mod tests;
