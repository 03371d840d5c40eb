//! Destination of generated frames: the addresses and the next station.
//!
//! In a lab its plan determines both: frames for a node on the same segment go to it directly, others to the
//! router in the sender's routes.

use std::net::IpAddr;

use anyhow::{Result, anyhow};
use netloom_model::Plan;
use netloom_model::lookup::target::{Place, Point};
use netloom_model::plan::{Interface, PlannedEnd, PlannedNode};
use netloom_netlink::LinkInfo;
use netloom_traffic::Addresses;

use crate::Usage;
use crate::flags::Generate;

/// Source and destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    from: Option<IpAddr>,
    to: IpAddr,
    to_mac: [u8; 6],
}

impl Way {
    /// Determines where `args` sends frames from a point.
    ///
    /// # Errors
    /// A flag is required because the lab does not determine it.
    pub(super) fn find(plan: Option<&Plan>, point: Option<&Point>, args: &Generate) -> Result<Way> {
        let own = plan.zip(point).and_then(|(plan, point)| sender(plan, point));
        let asked = args.to.as_deref();
        let targets = match (plan, asked) {
            (Some(plan), Some(name)) if plan.node(name).is_some() => {
                let node = &plan.nodes[plan.node(name).unwrap_or_default()];
                addresses(node)
            }
            (_, Some(text)) => vec![text.parse().map_err(|_| {
                Usage(format!("--to {text:?}: it is neither a node of the lab nor an address"))
            })?],
            (Some(plan), None) => at_the_other_end(plan, point),
            (None, None) => vec![],
        };
        let fits = |to: &&IpAddr| args.from.is_none_or(|from| from.is_ipv4() == to.is_ipv4());
        let known = |to: &IpAddr| {
            let (plan, (node, interface)) = plan.zip(own)?;
            Some((*to, station(plan, node, interface, *to)?))
        };
        // A switch port is on the segment of its source address.
        let beside = |to: &IpAddr| {
            let (plan, from) = plan.zip(args.from.filter(|_| point.is_none()))?;
            let mut all = plan.nodes.iter().flat_map(|n| &n.interfaces);
            let here = all
                .find(|i| i.addresses.iter().any(|own| own.addr() == *to && own.contains(&from)))?;
            Some((*to, here.mac))
        };
        let found = targets.iter().filter(fits).find_map(|to| known(to).or_else(|| beside(to)));
        let (to, to_mac) = match (found, targets.iter().find(fits), args.to_mac) {
            (_, Some(to), Some(mac)) => (*to, mac),
            (Some(found), ..) => found,
            (None, Some(to), None) => {
                let words = format!("--to-mac is needed: nothing here tells which station {to} is");
                return Err(Usage(words).into());
            }
            (None, None, _) => {
                return Err(Usage("--to is needed: a node or an address".to_owned()).into());
            }
        };
        let from = args.from.or_else(|| {
            let own = own.map(|(_, interface)| interface.addresses.iter().map(|a| a.addr()));
            own.into_iter().flatten().find(|from| from.is_ipv4() == to.is_ipv4())
        });
        Ok(Way { from, to, to_mac })
    }

    /// Addresses of frames sent from an interface or, without one, from a port of a switch.
    pub(super) fn addresses(&self, link: Option<&LinkInfo>, args: &Generate) -> Result<Addresses> {
        let own = match link {
            Some(link) => {
                link.mac.ok_or_else(|| anyhow!("interface {:?}: no Ethernet", link.name))?
            }
            // A locally administered address specific to this process.
            None => {
                let [a, b, c, d] = std::process::id().to_be_bytes();
                [2, 0x6e, a, b, c, d]
            }
        };
        let from = self.from.ok_or_else(|| {
            Usage("--from is needed: the sender has no address of that family".to_owned())
        })?;
        let addresses =
            Addresses::new((own, self.to_mac), from, self.to).map_err(|e| Usage(e.to_string()))?;
        Ok(Addresses { target_port: args.port, ..addresses })
    }
}

/// The node and the interface of a point.
fn sender<'a>(plan: &'a Plan, point: &Point) -> Option<(&'a PlannedNode, &'a Interface)> {
    let Place::Node(name) = &point.place else { return None };
    let node = &plan.nodes[plan.node(name)?];
    Some((node, node.interfaces.iter().find(|i| i.name == point.interface)?))
}

/// IPv4 first.
fn addresses(node: &PlannedNode) -> Vec<IpAddr> {
    let all = node.interfaces.iter().flat_map(|i| &i.addresses).map(|a| a.addr());
    let (mut first, second): (Vec<_>, Vec<_>) = all.partition(IpAddr::is_ipv4);
    first.extend(second);
    first
}

/// Addresses of the node at the other end of a point's link.
fn at_the_other_end(plan: &Plan, point: Option<&Point>) -> Vec<IpAddr> {
    let link = point.and_then(|p| plan.link(p.link.as_deref()?)).map(|at| &plan.links[at]);
    let mut all = vec![];
    for end in link.into_iter().flat_map(|link| &link.ends) {
        if let PlannedEnd::Node { node, interface } = end {
            let (node, interface) = (&plan.nodes[*node], &plan.nodes[*node].interfaces[*interface]);
            let own = point.is_some_and(|p| p.name == format!("{}:{}", node.name, interface.name));
            if !own {
                all.extend(interface.addresses.iter().map(|a| a.addr()));
            }
        }
    }
    all.sort_by_key(IpAddr::is_ipv6);
    all
}

/// The station to which a sender passes frames for an address.
fn station(plan: &Plan, node: &PlannedNode, interface: &Interface, to: IpAddr) -> Option<[u8; 6]> {
    if interface.addresses.iter().any(|own| own.contains(&to)) {
        return owner(plan, to);
    }
    let of_interface = |i: usize| node.interfaces.get(i).is_some_and(|i| i.name == interface.name);
    let routes = node.routes.iter().filter(|r| of_interface(r.interface) && r.to.contains(&to));
    let best = routes.max_by_key(|r| r.to.prefix_len())?;
    owner(plan, best.via.unwrap_or(to))
}

/// The MAC of the interface with this address.
fn owner(plan: &Plan, address: IpAddr) -> Option<[u8; 6]> {
    let interfaces = plan.nodes.iter().flat_map(|n| &n.interfaces);
    let mut owners = interfaces.filter(|i| i.addresses.iter().any(|a| a.addr() == address));
    owners.next().map(|i| i.mac)
}
