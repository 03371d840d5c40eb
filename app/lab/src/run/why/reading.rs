//! Reads what decides about packets in the network namespace of the calling thread.

use ipnet::IpNet;
use netloom_model::plan::PlannedNode;
use netloom_netlink::diag::{self, Protocol, SocketInfo, State};
use netloom_netlink::packet_rules::{self, Part, Reader};
use netloom_netlink::{AddressInfo, Family, LinkInfo, Socket};
use netloom_sys::sysctl;
use netloom_why::facts::{Interface, Life, Listener, Neighbour, Node};
use netloom_why::nft::Ruleset;
use netloom_why::nft::decode::{self, Kind};

use crate::{Error, Result};

/// Tables of iptables-legacy, by family; only what the kernel has loaded is listed.
const OLD_TABLES: [&str; 2] =
    ["/proc/thread-self/net/ip_tables_names", "/proc/thread-self/net/ip6_tables_names"];

/// Reads a node; what the plan says of it is added by the caller.
pub(super) fn node(planned: &PlannedNode) -> Result<Node> {
    let object = format!("node {:?}", planned.name);
    let mut socket = Socket::open_to_ask().map_err(Error::of(&object, "open a netlink socket"))?;
    let links = socket.links_alone().map_err(Error::of(&object, "read its interfaces"))?;
    let addresses = socket.addresses().map_err(Error::of(&object, "read its addresses"))?;
    let neighbours = neighbours(&mut socket).map_err(Error::of(&object, "read its neighbours"))?;
    let sockets = diag::sockets().map_err(Error::of(&object, "read its sockets"))?;
    let setting = |path: &str| sysctl::get(path).and_then(|value| value.parse::<u32>().ok());
    let filter = setting("net/ipv4/conf/all/rp_filter").unwrap_or(0);
    Ok(Node {
        name: planned.name.clone(),
        life: Life::Up,
        interfaces: links.iter().map(|link| interface(link, &addresses, filter)).collect(),
        planned: vec![],
        planned_routes: vec![],
        forwards6: setting("net/ipv6/conf/all/forwarding").unwrap_or(0) != 0,
        neighbours,
        listeners: sockets.iter().filter_map(listener).collect(),
        // What is not known is told as not known.
        rules: rules().ok(),
        old_tables: old_tables(),
        ttl: setting("net/ipv4/ip_default_ttl"),
        ignores_echo: setting("net/ipv4/icmp_echo_ignore_all").unwrap_or(0) != 0,
        ignores_echo6: setting("net/ipv6/icmp/echo_ignore_all").unwrap_or(0) != 0,
    })
}

fn interface(link: &LinkInfo, addresses: &[AddressInfo], filter: u32) -> Interface {
    let setting = |wanted: &str| {
        link.settings.of(Family::V4).find(|(name, _)| *name == wanted).map_or(0, |(_, v)| v)
    };
    let own = addresses.iter().filter(|a| a.link == link.index);
    Interface {
        name: link.name.clone(),
        index: link.index,
        up: link.up,
        carrier: link.carrier,
        mtu: link.mtu,
        mac: link.mac,
        addresses: own.map(|a| a.address).collect::<Vec<IpNet>>(),
        forwards: setting("forwarding") != 0,
        rp_filter: filter.max(setting("rp_filter")),
    }
}

fn neighbours(socket: &mut Socket) -> netloom_netlink::Result<Vec<Neighbour>> {
    let mut all = Vec::new();
    for family in [Family::V4, Family::V6] {
        let fixed = socket.neighbours(family)?.into_iter().filter(|n| n.permanent);
        all.extend(fixed.filter_map(|n| {
            Some(Neighbour { interface: n.link, address: n.address, mac: n.mac? })
        }));
    }
    Ok(all)
}

/// A socket that may take packets of anybody.
fn listener(socket: &SocketInfo) -> Option<Listener> {
    let (protocol, queue) = match (socket.protocol, socket.state) {
        (Protocol::Tcp, State::Listen) => (6, socket.queue),
        (Protocol::Udp, State::Open) if socket.remote.is_none() => (17, None),
        _ => return None,
    };
    Some(Listener { protocol, local: socket.local?, queue })
}

fn old_tables() -> Vec<String> {
    let names = OLD_TABLES.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    let mut all: Vec<String> =
        names.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    all.sort();
    all.dedup();
    all
}

fn rules() -> netloom_netlink::Result<Ruleset> {
    let mut reader = Decoding::default();
    packet_rules::dump(&mut reader)?;
    Ok(reader.0.finish())
}

#[derive(Default)]
struct Decoding(decode::Reader);

impl Reader for Decoding {
    fn take(&mut self, part: Part, payload: &[u8]) {
        let kind = match part {
            Part::Table => Kind::Table,
            Part::Chain => Kind::Chain,
            Part::Rule => Kind::Rule,
            Part::Set => Kind::Set,
            Part::Elements => Kind::Elements,
        };
        self.0.take(kind, payload);
    }

    fn sets(&self) -> Vec<(u8, String, String)> {
        self.0.sets()
    }
}
