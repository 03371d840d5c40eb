//! Routes and neighbours of a router as the kernel tells them, and what packets to a destination do by them.
//!
//! Pure. Routes of the main and the local table count; which of them is for a packet is decided by the longest prefix
//! and the least metric, as in the kernel without rules of its own. What the kernel does itself, and what it would need
//! to find out first, is [`Disposition::Stack`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netloom_netlink::{
    ForwardingHop, ForwardingNeighbour, ForwardingRoute, LOCAL_TABLE, MAIN_TABLE,
};

/// A next hop: a router or a station on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// Index of the link.
    pub link: u32,
    /// Its address there.
    pub address: IpAddr,
    /// Its share among several.
    pub weight: u16,
}

/// What packets to a destination do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// They go to the router's own stack.
    Stack,
    /// They go on, each flow by one of these.
    Hops(Vec<Hop>),
}

/// A destination of packets: of the table of local addresses, or of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// An address of the router itself, or a group.
    pub local: bool,
    /// The prefix.
    pub to: IpNet,
}

/// The routes and neighbours.
#[derive(Clone, Debug, Default)]
pub struct Fib {
    /// By destination; the least metric is first.
    routes: BTreeMap<Destination, BTreeMap<u32, ForwardingRoute>>,
    neighbours: BTreeMap<(u32, IpAddr), ForwardingNeighbour>,
}

/// Whether the switch leaves a prefix to the stack by entries of its own, whatever routes say.
fn is_special(to: &IpNet) -> bool {
    match to.addr() {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_multicast() || address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// The destination of a route; `None` of one that does not count.
pub fn destination(route: &ForwardingRoute) -> Option<Destination> {
    let known = matches!(route.table, MAIN_TABLE | LOCAL_TABLE) && !is_special(&route.to);
    let local = route.table == LOCAL_TABLE;
    known.then_some(Destination { local, to: route.to })
}

impl Fib {
    /// Adds a route. Returns whether it is certain what the kernel has now.
    pub fn add(&mut self, route: ForwardingRoute, replaces: bool) -> bool {
        let Some(at) = destination(&route) else { return true };
        let of = self.routes.entry(at).or_default();
        let old = of.insert(route.metric, route);
        let same = old.as_ref().is_none_or(|old| of.values().any(|now| now == old));
        // Without a replacement the kernel has both.
        replaces || same || at.local
    }

    /// Removes a route. Returns whether it is certain what the kernel has now.
    pub fn remove(&mut self, route: &ForwardingRoute) -> bool {
        let Some(at) = destination(route) else { return true };
        let Some(of) = self.routes.get_mut(&at) else { return true };
        // The kernel may have several routes of one metric,
        // of which the last one heard is known here.
        let certain = of.get(&route.metric).is_none_or(|known| known.hops == route.hops);
        if certain {
            of.remove(&route.metric);
        }
        if of.is_empty() {
            self.routes.remove(&at);
        }
        certain
    }

    /// Notes a neighbour; returns whether packets to it are sent otherwise than before.
    pub fn note(&mut self, neighbour: ForwardingNeighbour) -> bool {
        if is_special(&neighbour.address.into()) && neighbour.address.is_multicast() {
            return false;
        }
        let at = (neighbour.link, neighbour.address);
        let old = self.neighbours.insert(at, neighbour);
        old.and_then(|old| old.mac) != neighbour.mac
    }

    /// Forgets a neighbour; returns whether packets to it are sent otherwise than before.
    pub fn forget(&mut self, link: u32, address: IpAddr) -> bool {
        self.neighbours.remove(&(link, address)).is_some_and(|old| old.mac.is_some())
    }

    /// The hardware address of a next hop.
    pub fn mac(&self, link: u32, address: IpAddr) -> Option<[u8; 6]> {
        self.neighbours.get(&(link, address))?.mac
    }

    /// Whether the kernel would soon forget a neighbour that nothing is sent to.
    pub fn is_stale(&self, link: u32, address: IpAddr) -> bool {
        self.neighbours.get(&(link, address)).is_some_and(|neighbour| neighbour.stale)
    }

    /// Every destination of a route.
    pub fn destinations(&self) -> impl Iterator<Item = Destination> {
        self.routes.keys().copied()
    }

    /// The destinations that neighbours with an address are.
    pub fn stations(&self) -> impl Iterator<Item = Destination> {
        let usable = self.neighbours.values().filter(|neighbour| neighbour.mac.is_some());
        let stations = usable.filter(|neighbour| !is_special(&neighbour.address.into()));
        stations.map(|neighbour| Destination { local: false, to: neighbour.address.into() })
    }

    /// The route that is in force for a destination.
    pub fn best(&self, at: Destination) -> Option<&ForwardingRoute> {
        self.routes.get(&at)?.values().next()
    }

    /// What packets to a destination do; `None` if nothing is known of it, so that a shorter prefix decides.
    pub fn way(&self, at: Destination) -> Option<Disposition> {
        match self.best(at) {
            Some(route) => Some(way_of(route)),
            None => self.station_way(at),
        }
    }

    /// The way to a station on a link of the router's.
    fn station_way(&self, at: Destination) -> Option<Disposition> {
        let hop = self.station(at)?;
        self.mac(hop.link, hop.address)?;
        Some(Disposition::Hops(vec![hop]))
    }

    /// The station that a destination is, by its address: one on a link of the router's, known as a neighbour or not.
    pub fn station(&self, at: Destination) -> Option<Hop> {
        let whole = at.to.prefix_len() == at.to.max_prefix_len();
        let address = at.to.addr();
        let link = self.on_link(address).filter(|_| whole && !at.local)?;
        Some(Hop { link, address, weight: 1 })
    }

    /// The link on which an address is, if it is on one.
    fn on_link(&self, address: IpAddr) -> Option<u32> {
        let longest = IpNet::from(address).max_prefix_len();
        let prefixes = (0..=longest).rev().filter_map(|length| IpNet::new(address, length).ok());
        let mut routes =
            prefixes.filter_map(|to| self.best(Destination { local: false, to: to.trunc() }));
        // The longest prefix decides, also if it does not lead to a link.
        match routes.next()? {
            route if route.is_unicast() => match route.hops.as_slice() {
                [ForwardingHop { via: None, link, .. }] => Some(*link),
                _ => None,
            },
            _ => None,
        }
    }
}

fn way_of(route: &ForwardingRoute) -> Disposition {
    let hop =
        |hop: &ForwardingHop| Some(Hop { link: hop.link, address: hop.via?, weight: hop.weight });
    let hops: Option<Vec<Hop>> = route.hops.iter().map(hop).collect();
    match hops {
        Some(mut hops) if route.is_unicast() && !hops.is_empty() => {
            // The order says nothing, and is another one each time that a daemon tells the kernel.
            hops.sort_unstable();
            Disposition::Hops(hops)
        }
        _ => Disposition::Stack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str, via: &[(&str, u32)], metric: u32) -> ForwardingRoute {
        let hops = via.iter().map(|(via, link)| ForwardingHop {
            via: via.parse().ok(),
            link: *link,
            weight: 1,
        });
        let (table, kind) = (MAIN_TABLE, 1);
        ForwardingRoute {
            to: to.parse().unwrap(),
            table,
            kind,
            origin: 4,
            metric,
            hops: hops.collect(),
        }
    }

    fn at(to: &str) -> Destination {
        Destination { local: false, to: to.parse().unwrap() }
    }

    fn neighbour(link: u32, address: &str) -> ForwardingNeighbour {
        let address = address.parse().unwrap();
        ForwardingNeighbour { link, address, mac: Some([2; 6]), stale: false, permanent: false }
    }

    #[test]
    fn the_least_metric_decides() {
        let mut fib = Fib::default();
        assert!(fib.add(route("10.0.0.0/8", &[("10.1.0.1", 2)], 20), false));
        assert!(fib.add(route("10.0.0.0/8", &[("10.1.0.2", 3)], 10), false));
        let Some(Disposition::Hops(hops)) = fib.way(at("10.0.0.0/8")) else { panic!() };
        assert_eq!(hops[0].link, 3);
        assert!(fib.remove(&route("10.0.0.0/8", &[("10.1.0.2", 3)], 10)));
        let Some(Disposition::Hops(hops)) = fib.way(at("10.0.0.0/8")) else { panic!() };
        assert_eq!(hops[0].link, 2);
    }

    #[test]
    fn a_second_route_of_one_metric_is_asked_for_again() {
        let mut fib = Fib::default();
        assert!(fib.add(route("10.0.0.0/8", &[("10.1.0.1", 2)], 20), false));
        assert!(fib.add(route("10.0.0.0/8", &[("10.1.0.1", 2)], 20), false), "the same");
        assert!(!fib.add(route("10.0.0.0/8", &[("10.1.0.2", 2)], 20), false));
        assert!(fib.add(route("10.0.0.0/8", &[("10.1.0.3", 2)], 20), true));
        assert!(!fib.remove(&route("10.0.0.0/8", &[("10.1.0.1", 2)], 20)), "not the one it has");
    }

    #[test]
    fn the_order_of_next_hops_says_nothing() {
        let way = |via: &[(&str, u32)]| {
            let mut fib = Fib::default();
            fib.add(route("10.0.0.0/8", via, 20), false);
            fib.way(at("10.0.0.0/8"))
        };
        let hops = [("10.1.0.1", 2), ("10.2.0.1", 3)];
        assert_eq!(way(&hops), way(&[hops[1], hops[0]]));
        assert_ne!(way(&hops), way(&[("10.1.0.1", 3), ("10.2.0.1", 2)]));
    }

    #[test]
    fn stations_on_a_link_have_ways_of_their_own() {
        let mut fib = Fib::default();
        fib.add(route("10.1.0.0/24", &[("", 2)], 0), false);
        fib.add(route("10.0.0.0/8", &[("10.1.0.9", 2)], 0), false);
        assert_eq!(fib.way(at("10.1.0.0/24")), Some(Disposition::Stack));
        assert!(fib.note(neighbour(2, "10.1.0.5")));
        assert!(!fib.note(neighbour(2, "10.1.0.5")));
        assert!(matches!(fib.way(at("10.1.0.5/32")), Some(Disposition::Hops(_))));
        // One that is not there by its address is none.
        assert!(fib.note(neighbour(2, "10.2.0.5")));
        assert_eq!(fib.way(at("10.2.0.5/32")), None);
        assert!(fib.forget(2, "10.1.0.5".parse().unwrap()));
        assert_eq!(fib.way(at("10.1.0.5/32")), None);
        // A client that wants it can ask for it.
        let station = fib.station(at("10.1.0.5/32")).unwrap();
        assert_eq!((station.link, station.address.to_string().as_str()), (2, "10.1.0.5"));
        assert_eq!([fib.station(at("10.1.0.0/24")), fib.station(at("10.2.0.5/32"))], [None; 2]);
    }

    #[test]
    fn local_addresses_and_refusals_are_for_the_stack() {
        let mut fib = Fib::default();
        let mut local = route("10.1.0.1/32", &[("", 2)], 0);
        (local.table, local.kind) = (LOCAL_TABLE, 2);
        fib.add(local, false);
        let mine = Destination { local: true, to: "10.1.0.1/32".parse().unwrap() };
        assert_eq!(fib.way(mine), Some(Disposition::Stack));
        let mut none = route("192.0.2.0/24", &[("", 0)], 0);
        none.kind = 6;
        fib.add(none, false);
        assert_eq!(fib.way(at("192.0.2.0/24")), Some(Disposition::Stack));
    }
}
