//! Destination of generated frames: the addresses and the next station.
//!
//! In a lab its plan determines both: frames for a node on the same segment go to it directly, others to the
//! router in the sender's routes.

use std::net::IpAddr;

use netloom_model::Plan;
use netloom_model::lookup::target::{Point, Space};
use netloom_model::plan::{Interface, PlannedEnd, PlannedNode};
use netloom_netlink::LinkInfo;
use netloom_traffic::Addresses;

use crate::{Error, Result};

/// Where frames are to go, and what is not to be determined by the lab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// A node or an address; without one, the other end of the link.
    pub to: Option<String>,
    /// The destination's MAC address.
    pub to_mac: Option<[u8; 6]>,
    /// The source address.
    pub from: Option<IpAddr>,
    /// The destination's UDP port.
    pub port: u16,
}

/// Source and destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressing {
    from: Option<IpAddr>,
    to: IpAddr,
    to_mac: [u8; 6],
    port: u16,
}

impl Addressing {
    /// Determines how frames get from a point to a destination.
    ///
    /// # Errors
    /// [`Error::Destination`]; [`Error::NoDestination`] and [`Error::NoStation`] where neither the lab nor the
    /// request determines it.
    pub fn find(
        plan: Option<&Plan>,
        point: Option<&Point>,
        asked: &Destination,
    ) -> Result<Addressing> {
        let own = plan.zip(point).and_then(|(plan, point)| sender(plan, point));
        let targets = match (plan, asked.to.as_deref()) {
            (Some(plan), Some(name)) if plan.node(name).is_some() => {
                let node = &plan.nodes[plan.node(name).unwrap_or_default()];
                addresses(node)
            }
            (_, Some(text)) => {
                vec![text.parse().map_err(|_| Error::Destination { text: text.to_owned() })?]
            }
            (Some(plan), None) => at_the_other_end(plan, point),
            (None, None) => vec![],
        };
        let fits = |to: &&IpAddr| asked.from.is_none_or(|from| from.is_ipv4() == to.is_ipv4());
        let known = |to: &IpAddr| {
            let (plan, (node, interface)) = plan.zip(own)?;
            Some((*to, station(plan, node, interface, *to)?))
        };
        // A switch port is on the segment of its source address.
        let beside = |to: &IpAddr| {
            let (plan, from) = plan.zip(asked.from.filter(|_| point.is_none()))?;
            let mut all = plan.nodes.iter().flat_map(|n| &n.interfaces);
            let here = all
                .find(|i| i.addresses.iter().any(|own| own.addr() == *to && own.contains(&from)))?;
            Some((*to, here.mac))
        };
        let found = targets.iter().filter(fits).find_map(|to| known(to).or_else(|| beside(to)));
        let (to, to_mac) = match (found, targets.iter().find(fits), asked.to_mac) {
            (_, Some(to), Some(mac)) => (*to, mac),
            (Some(found), ..) => found,
            (None, Some(to), None) => return Err(Error::NoStation { to: *to }),
            (None, None, _) => return Err(Error::NoDestination),
        };
        let from = asked.from.or_else(|| {
            let own = own.map(|(_, interface)| interface.addresses.iter().map(|a| a.addr()));
            own.into_iter().flatten().find(|from| from.is_ipv4() == to.is_ipv4())
        });
        Ok(Addressing { from, to, to_mac, port: asked.port })
    }

    /// Addresses of frames sent from an interface or, without one, from a port of a switch.
    ///
    /// # Errors
    /// [`Error::NoSource`]; addresses that cannot be in one packet, and an interface without Ethernet.
    pub fn addresses(&self, link: Option<&LinkInfo>) -> Result<Addresses> {
        let own = match link {
            Some(link) => {
                let object = || format!("interface {:?}", link.name);
                link.mac.ok_or_else(|| Error::unfit(object(), "no Ethernet"))?
            }
            // A locally administered address specific to this process.
            None => {
                let [a, b, c, d] = std::process::id().to_be_bytes();
                [2, 0x6e, a, b, c, d]
            }
        };
        let from = self.from.ok_or(Error::NoSource)?;
        let addresses = Addresses::new((own, self.to_mac), from, self.to)
            .map_err(|e| Error::Request(e.to_string()))?;
        Ok(Addresses { target_port: self.port, ..addresses })
    }
}

/// The node and the interface of a point.
fn sender<'a>(plan: &'a Plan, point: &Point) -> Option<(&'a PlannedNode, &'a Interface)> {
    let Space::Node(name) = &point.space else { return None };
    let node = &plan.nodes[plan.node(name)?];
    Some((node, node.interfaces.iter().find(|i| i.name == point.interface)?))
}

/// IPv4 first.
fn addresses(node: &PlannedNode) -> Vec<IpAddr> {
    let all = node.all_addresses().map(|a| a.addr());
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
    // Without a next hop the address itself is on the link.
    owner(plan, best.via.unwrap_or(to))
}

/// The MAC of the interface with this address.
fn owner(plan: &Plan, address: IpAddr) -> Option<[u8; 6]> {
    let interfaces = plan.nodes.iter().flat_map(|n| &n.interfaces);
    let mut owners = interfaces.filter(|i| i.addresses.iter().any(|a| a.addr() == address));
    owners.next().map(|i| i.mac)
}

#[cfg(test)]
mod tests {
    use netloom_model::lookup::target;

    use super::*;

    fn plan() -> Plan {
        let text = "name: t\nnodes: {h1: {}, h2: {}, r: {forwarding: true}, web: {}}\n\
                    switches: {s: {}}\nlinks: [[h1, s], [h2, s], [s, r], [r, web]]\n";
        let lab = netloom_model::parse("t.yaml", text.as_bytes(), "t").unwrap();
        netloom_model::plan::plan(&lab).unwrap()
    }

    fn way(plan: &Plan, from: &str, to: Option<&str>) -> Result<Addressing> {
        let points = target::resolve(plan, from).unwrap().points;
        let asked = Destination { to: to.map(str::to_owned), port: 9, ..Destination::default() };
        Addressing::find(Some(plan), points.first(), &asked)
    }

    #[test]
    fn frames_go_to_the_station_that_takes_them_on() {
        let plan = plan();
        let mac = |node: &str, interface: usize| {
            plan.nodes[plan.node(node).unwrap()].interfaces[interface].mac
        };
        let beside = way(&plan, "h1", Some("h2")).unwrap();
        assert_eq!(beside.to_mac, mac("h2", 0));
        let behind = way(&plan, "h1", Some("web")).unwrap();
        assert_eq!(behind.to_mac, mac("r", 0));
        let web = plan.nodes[plan.node("web").unwrap()].ipv4().unwrap();
        assert_eq!(behind.to, IpAddr::from(web));
        // The other end of the link.
        assert_eq!(way(&plan, "web", None).unwrap().to_mac, mac("r", 1));
        assert!(behind.from.is_some_and(|from| from.is_ipv4()));
    }

    #[test]
    fn what_nothing_determines_is_asked_for() {
        let plan = plan();
        let error = |to| way(&plan, "h1", to).unwrap_err();
        assert!(matches!(error(Some("nobody")), Error::Destination { text } if text == "nobody"));
        assert!(matches!(error(None), Error::NoDestination), "the other end is a switch's port");
        let stranger = Destination { to: Some("192.0.2.1".into()), ..Destination::default() };
        assert!(matches!(Addressing::find(None, None, &stranger), Err(Error::NoStation { .. })));
        let known = Destination { to_mac: Some([2, 0, 0, 0, 0, 1]), ..stranger };
        let way = Addressing::find(None, None, &known).unwrap();
        assert!(matches!(way.addresses(None), Err(Error::NoSource)));
        assert!(way.addresses(None).unwrap_err().is_request());
    }
}
