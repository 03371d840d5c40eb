//! Reads what decides about packets in the network namespace of the calling thread.

use ipnet::IpNet;
use netloom_model::plan::PlannedNode;
use netloom_netlink::diag::{self, Protocol, SocketInfo, State};
use netloom_netlink::packet_rules::{self, Part, Reader};
use netloom_netlink::{AddressInfo, DisciplineInfo, Family, LinkInfo, Socket};
use netloom_sys::sysctl;
use netloom_why::facts::{Discipline, Interface, Life, Listener, Neighbour, Node};
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
    let (neighbours, heard) =
        neighbours(&mut socket).map_err(Error::of(&object, "read its neighbours"))?;
    let queues = socket.disciplines().map_err(Error::of(&object, "read its queues"))?;
    let routing =
        rules_of_routing(&mut socket).map_err(Error::of(&object, "read its rules of routing"))?;
    let ends_with = |words: &String, kind: &str| words.ends_with(kind);
    let refuses = |words: &&String| {
        ["blackhole", "unreachable", "prohibit"].iter().any(|k| ends_with(words, k))
    };
    let sockets = diag::sockets().map_err(Error::of(&object, "read its sockets"))?;
    let setting = |path: &str| sysctl::get(path).and_then(|value| value.parse::<u32>().ok());
    let filter = setting("net/ipv4/conf/all/rp_filter").unwrap_or(0);
    let ignore = setting("net/ipv4/conf/all/arp_ignore").unwrap_or(0);
    let all = || links.iter().map(|link| interface(link, &addresses, filter));
    let interfaces = all().zip(&links).map(|(found, link)| Interface {
        arp_ignore: found.arp_ignore.max(ignore),
        bridge: bridge(link, &links),
        queue: queue(link, &queues),
        ..found
    });
    Ok(Node {
        name: planned.name.clone(),
        life: Life::Up,
        interfaces: interfaces.collect(),
        planned: vec![],
        planned_routes: vec![],
        forwards6: setting("net/ipv6/conf/all/forwarding").unwrap_or(0) != 0,
        neighbours,
        heard,
        tracked: setting("net/netfilter/nf_conntrack_count")
            .zip(setting("net/netfilter/nf_conntrack_max")),
        resolvers: vec![],
        budget: None,
        refusing_rules: routing.iter().filter(refuses).cloned().collect(),
        marked_rules: routing.iter().filter(|words| words.contains(" fwmark ")).cloned().collect(),
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
    let ipv6_off = link.settings.of(Family::V6).find(|(name, _)| *name == "disable_ipv6");
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
        arp_ignore: setting("arp_ignore"),
        no_arp: !link.arp,
        ipv6_off: ipv6_off.is_some_and(|(_, value)| value != 0),
        bridge: None,
        queue: None,
    }
}

/// The bridge that a link is a port of.
fn bridge(link: &LinkInfo, all: &[LinkInfo]) -> Option<String> {
    let master = all.iter().find(|found| Some(found.index) == link.master)?;
    (master.kind.as_deref() == Some("bridge")).then(|| master.name.clone())
}

/// A discipline that somebody gave a link, or that has lost something.
fn queue(link: &LinkInfo, all: &[DisciplineInfo]) -> Option<Discipline> {
    let found = all.iter().find(|queue| queue.link == link.index && queue.kind != "noqueue")?;
    let DisciplineInfo { kind, waiting, dropped, .. } = found.clone();
    Some(Discipline { kind, waiting, dropped })
}

/// Rules of policy routing in words.
fn rules_of_routing(socket: &mut Socket) -> netloom_netlink::Result<Vec<String>> {
    let mut all = socket.rules(Family::V4)?;
    all.extend(socket.rules(Family::V6)?);
    Ok(all.into_iter().map(|rule| rule.words).collect())
}

/// Neighbours that somebody fixed, and those that answered.
fn neighbours(socket: &mut Socket) -> netloom_netlink::Result<(Vec<Neighbour>, Vec<Neighbour>)> {
    let (mut fixed, mut heard) = (vec![], vec![]);
    for family in [Family::V4, Family::V6] {
        for found in socket.neighbours(family)? {
            let Some(mac) = found.mac else { continue };
            let known = Neighbour { interface: found.link, address: found.address, mac };
            if found.permanent { fixed.push(known) } else { heard.push(known) }
        }
    }
    Ok((fixed, heard))
}

/// A socket that may take packets of anybody.
fn listener(socket: &SocketInfo) -> Option<Listener> {
    let (protocol, queue) = match (socket.protocol, socket.state) {
        (Protocol::Tcp, State::Listen) => (6, socket.queue),
        (Protocol::Udp, State::Open) if socket.remote.is_none() => (17, None),
        _ => return None,
    };
    let room = socket.room.map(|room| (room.used, room.most, room.dropped));
    Some(Listener {
        protocol,
        local: socket.local?,
        device: socket.interface,
        six_only: socket.six_only,
        queue,
        room,
        inode: socket.inode,
    })
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
