//! What nodes, links and switches are like now, as plain values, and who answers questions about them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use ipnet::IpNet;
use netloom_bridge::VlanMode;

use crate::flow::Place;
use crate::nft::Ruleset;

/// Whether a node can be looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It lives.
    #[default]
    Up,
    /// Its init has ended.
    Dead,
    /// A virtual machine: its kernel is not seen from outside.
    Guest,
}

/// An interface of a node as its kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Its hardware address.
    pub mac: Option<[u8; 6]>,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Whether it forwards IPv4.
    pub forwards: bool,
    /// The reverse path filter of IPv4 that counts: the larger one of this interface's and `all`'s.
    pub rp_filter: u32,
    /// Whose questions for hardware addresses it leaves unanswered: the larger one of this interface's `arp_ignore` and `all`'s.
    pub arp_ignore: u32,
    /// Whether it neither asks for hardware addresses nor answers questions for its own.
    pub no_arp: bool,
    /// Whether IPv6 is off on it (`disable_ipv6`), which keeps addresses of IPv6 away.
    pub ipv6_off: bool,
    /// The bridge that it is a port of.
    pub bridge: Option<String>,
    /// Its queueing discipline, unless it is the kernel's own.
    pub queue: Option<Discipline>,
}

/// The queueing discipline at the root of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discipline {
    /// Its kind, e.g. `tbf`.
    pub kind: String,
    /// Packets that wait in it.
    pub waiting: u32,
    /// Packets that it has dropped.
    pub dropped: u32,
}

/// An interface as the plan wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedInterface {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// The link it is an end of.
    pub link: String,
    /// Whether that link was taken down, by which one of its ends is set down.
    pub unplugged: bool,
    /// Its MTU.
    pub mtu: u32,
}

/// A route as the plan wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRoute {
    /// The destination.
    pub to: IpNet,
    /// Next hops and their interfaces: those of equal cost. No gateway on the link itself.
    pub hops: Vec<(Option<IpAddr>, String)>,
}

/// A neighbour: one that somebody fixed for good, or that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface's index.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: [u8; 6],
}

/// A socket that may take packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// 6 or 17.
    pub protocol: u8,
    /// Where it listens.
    pub local: SocketAddr,
    /// The index of the only interface from which it takes packets.
    pub device: Option<u32>,
    /// Whether a socket of IPv6 takes no IPv4.
    pub six_only: bool,
    /// Connections that wait to be accepted, and how many may, where the kernel tells.
    pub queue: Option<(u32, u32)>,
    /// Bytes that wait to be read as the kernel counts them, how many may, and packets that were dropped.
    pub room: Option<(u32, u32, u32)>,
    /// Its inode, by which its program is found.
    pub inode: u32,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether the rest is known.
    pub life: Life,
    /// All interfaces.
    pub interfaces: Vec<Interface>,
    /// Those of the plan.
    pub planned: Vec<PlannedInterface>,
    /// Those of the plan.
    pub planned_routes: Vec<PlannedRoute>,
    /// Whether it forwards IPv6 (`net.ipv6.conf.all.forwarding`).
    pub forwards6: bool,
    /// Packets that its budget of protection has dropped, and the budget, in words.
    pub budget: Option<(u64, String)>,
    /// Connections that are tracked, and how many may be.
    pub tracked: Option<(u32, u32)>,
    /// Name servers of its `/etc/resolv.conf`, where that is not the machine's own file.
    pub resolvers: Vec<IpAddr>,
    /// Fixed neighbours.
    pub neighbours: Vec<Neighbour>,
    /// Neighbours that answered.
    pub heard: Vec<Neighbour>,
    /// Rules of policy routing that refuse, as `ip rule` says them.
    pub refusing_rules: Vec<String>,
    /// Rules of policy routing that depend on a mark, as `ip rule` says them.
    pub marked_rules: Vec<String>,
    /// Sockets of TCP that listen and sockets of UDP without a peer.
    pub listeners: Vec<Listener>,
    /// All rules of nftables; `None` if they could not be read.
    pub rules: Option<Ruleset>,
    /// Tables of the old iptables that have rules, which are not read.
    pub old_tables: Vec<String>,
    /// Time to live of its packets.
    pub ttl: Option<u32>,
    /// Whether it leaves echo requests of IPv4 unanswered (`net.ipv4.icmp_echo_ignore_all`).
    pub ignores_echo: bool,
    /// The same of IPv6 (`net.ipv6.icmp.echo_ignore_all`).
    pub ignores_echo6: bool,
}

impl Node {
    /// An interface by its name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|i| i.name == name)
    }

    /// A planned interface by its name.
    pub fn planned_interface(&self, name: &str) -> Option<&PlannedInterface> {
        self.planned.iter().find(|i| i.name == name)
    }

    /// Whether it has an address now.
    pub fn has(&self, address: IpAddr) -> bool {
        self.interfaces.iter().flat_map(|i| &i.addresses).any(|net| net.addr() == address)
    }

    /// The planned interface that is to have an address.
    pub fn planned_for(&self, address: IpAddr) -> Option<&PlannedInterface> {
        self.planned.iter().find(|i| i.addresses.iter().any(|net| net.addr() == address))
    }
}

/// A question to a node's kernel: by which way packets go.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The destination.
    pub to: IpAddr,
    /// Source and incoming interface of packets that are not the node's own.
    pub came: Option<(IpAddr, &'a str)>,
    /// Number of the protocol, and ports, which rules of routing may ask for.
    pub carries: Option<(u8, [u16; 2])>,
}

/// A kernel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routed {
    /// They are for the node itself.
    Here,
    /// They leave.
    Leaves {
        /// By this interface.
        interface: String,
        /// To this gateway.
        via: Option<IpAddr>,
        /// With this source, where the node chooses.
        source: Option<IpAddr>,
    },
    /// They are not sent, with this error.
    Refused(Refusal),
}

/// Why a look-up fails, by the kernel's error (`fib_props` of `net/ipv4/fib_semantics.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// ENETUNREACH: no route.
    NoRoute,
    /// EINVAL: a blackhole route; of packets that come in also the reverse path filter.
    Invalid,
    /// EHOSTUNREACH: an unreachable route; of packets that come in also no forwarding.
    Unreachable,
    /// EACCES: a prohibit route.
    Prohibited,
    /// EXDEV: the reverse path filter of older kernels.
    ReversePath,
}

/// A route that discards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discarding {
    /// `blackhole`, `unreachable` or `prohibit`; `throw` ends its table and leaves packets to the rules after it.
    pub kind: &'static str,
    /// Its destination.
    pub to: IpNet,
    /// Its table.
    pub table: u32,
    /// Who installed it, `RTPROT_*`.
    pub origin: u8,
}

/// The route that packets take, as it stands in its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Its destination.
    pub to: IpNet,
    /// Its table.
    pub table: u32,
}

/// A node's interface that can be reached on a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// The node.
    pub node: String,
    /// The interface.
    pub interface: String,
}

/// A link that is crossed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The link.
    pub link: String,
    /// The end from which it is crossed.
    pub from: usize,
    /// Where frames can be seen after it, on their way into a switch.
    pub into: Option<Place>,
    /// The switch after it; none at the station.
    pub switch: Option<Switch>,
    /// Where frames can be seen when they leave that switch.
    pub out_of: Option<Place>,
}

/// A switch that is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its kind: `kernel`, `shm`, `openflow`.
    pub kind: String,
}

/// What a port of a shared-memory switch allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRules {
    /// The port's name.
    pub port: String,
    /// Its VLANs: [`VlanMode::Any`] only on a switch that knows no VLANs.
    pub vlan: VlanMode,
    /// Those that the lab's file gives it, in the same way.
    pub planned: VlanMode,
    /// The only source addresses that frames may have; any if empty.
    pub macs: Vec<[u8; 6]>,
}

/// What the routing daemons of a node say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Daemons {
    /// Those that left their socket and do not run.
    pub ended: Vec<String>,
    /// Whether OSPF runs.
    pub ospf: bool,
    /// Interfaces on which OSPF speaks.
    pub speaks: Vec<OspfInterface>,
    /// Sessions of BGP.
    pub sessions: Vec<Session>,
}

/// An interface on which OSPF speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OspfInterface {
    /// Its name.
    pub name: String,
    /// The states of its neighbours, like `Full/-`.
    pub states: Vec<String>,
    /// Whether it tells of its network, and speaks to nobody there.
    pub passive: bool,
    /// What two ends must have in common, in words and as the daemon tells it: `hello interval`, `1 s`.
    pub settings: BTreeMap<&'static str, String>,
}

/// A session of BGP as one end sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The other end.
    pub peer: IpAddr,
    /// The AS number of this end, and the one that it expects of the other.
    pub numbers: [u64; 2],
    /// Its state, like `Established`.
    pub state: String,
    /// Why it was closed: the last notification, or what the daemon says.
    pub reason: Option<String>,
    /// The most prefixes that this end takes, where it has a limit.
    pub limit: Option<u64>,
    /// What keeps routes from being told, or taken.
    pub filters: Vec<PolicyFilter>,
}

/// A filter of a session of BGP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFilter {
    /// Whether it is for routes that are told; else for those that are taken.
    pub out: bool,
    /// In FRR's words: `prefix-list`, `route-map`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

/// What the BGP of a node knows of a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BgpRoute {
    /// Its route to it.
    pub prefix: Option<IpNet>,
    /// The neighbours that it told.
    pub told_to: Vec<IpAddr>,
    /// Its next hops, where it has no way to any of them.
    pub unreachable: Vec<IpAddr>,
}

/// What an OpenFlow switch would do with a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Whether it leaves by the port that was asked for.
    pub passes: bool,
    /// Other ports that it leaves by.
    pub elsewhere: Vec<String>,
    /// The last entry that it matches, in the syntax of ovs-ofctl.
    pub entry: Option<String>,
    /// Where it gets no further, in words.
    pub drops: Vec<String>,
    /// Whether a controller gets it.
    pub asks: bool,
    /// Meters that it goes through.
    pub meters: Vec<u32>,
    /// Controllers that the switch is to have, and has not now, each with its state.
    pub away: Vec<String>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether it was taken down, as if its cable were pulled.
    pub down: bool,
    /// Its ends.
    pub ends: [String; 2],
    /// `running`, or why its wire does not; `None` without a wire.
    pub wire: Option<String>,
    /// Impairments from each end, by key and value.
    pub impairments: [BTreeMap<String, String>; 2],
    /// Packets lost by impairments from each end, by cause.
    pub lost: [BTreeMap<String, u64>; 2],
}

/// Answers questions about a lab as it is now.
pub trait Facts {
    /// Why a question cannot be answered at all.
    type Error;

    /// The lab's name, for commands.
    fn lab(&self) -> &str;

    /// A node.
    ///
    /// # Errors
    /// It cannot be read.
    fn node(&mut self, node: &str) -> Result<Rc<Node>, Self::Error>;

    /// A look-up of a node's kernel; by the plan for a guest.
    ///
    /// # Errors
    /// It cannot be asked.
    fn route(&mut self, node: &str, lookup: &Lookup<'_>) -> Result<Routed, Self::Error>;

    /// The route by which the last look-up was answered; `None` where it is not known.
    ///
    /// # Errors
    /// It cannot be asked.
    fn matched(
        &mut self,
        _node: &str,
        _lookup: &Lookup<'_>,
    ) -> Result<Option<Matched>, Self::Error> {
        Ok(None)
    }

    /// The routes of a node that discard packets to a destination.
    ///
    /// # Errors
    /// They cannot be read.
    fn discarding(&mut self, node: &str, to: IpAddr) -> Result<Vec<Discarding>, Self::Error>;

    /// The stations on the segment of a node's interface: first those that are to have an address, by the plan.
    ///
    /// # Errors
    /// They cannot be told.
    fn stations(
        &mut self,
        node: &str,
        interface: &str,
        first: IpAddr,
    ) -> Result<Vec<Station>, Self::Error>;

    /// The links between a node's interface and a station on its segment, in order.
    ///
    /// # Errors
    /// They cannot be told.
    fn crossed(
        &mut self,
        node: &str,
        interface: &str,
        station: &Station,
    ) -> Result<Vec<Crossing>, Self::Error>;

    /// Whether a node has an address. A segment may have a thousand stations, of which this alone is asked.
    ///
    /// # Errors
    /// It cannot be read.
    fn has(&mut self, node: &str, address: IpAddr) -> Result<bool, Self::Error> {
        Ok(self.node(node)?.has(address))
    }

    /// What an OpenFlow switch would do with a frame that comes by the first link, to leave by the second; `None` if it does
    /// not tell.
    ///
    /// # Errors
    /// It cannot be asked.
    fn traced(
        &mut self,
        switch: &str,
        links: [&str; 2],
        frame: &[u8],
    ) -> Result<Option<Traced>, Self::Error>;

    /// The node that has an address by the plan; `None` where the lab leads to networks beyond it, in which anybody may.
    ///
    /// # Errors
    /// It cannot be told.
    fn planned_owner(&mut self, address: IpAddr) -> Result<Option<Option<String>>, Self::Error>;

    /// All nodes whose routing daemons can be asked, and what these say.
    ///
    /// # Errors
    /// Nodes cannot be told.
    fn daemons(&mut self) -> Result<Rc<Vec<(String, Daemons)>>, Self::Error>;

    /// The process that has a socket and is stopped by a signal, by its id in its node; `None` where none is, or where another
    /// process that runs has the socket, too.
    ///
    /// # Errors
    /// The node cannot be told.
    fn stopped(&mut self, _node: &str, _inode: u32) -> Result<Option<i32>, Self::Error> {
        Ok(None)
    }

    /// What the BGP of a node knows of a destination; `None` where it does not say.
    ///
    /// # Errors
    /// The node cannot be told.
    fn bgp_route(&mut self, _node: &str, _to: IpAddr) -> Result<Option<BgpRoute>, Self::Error> {
        Ok(None)
    }

    /// A link.
    ///
    /// # Errors
    /// It cannot be read.
    fn link(&mut self, link: &str) -> Result<Rc<Link>, Self::Error>;

    /// The rules of two ports of a shared-memory switch, by the links at them; `None` if it does not tell.
    ///
    /// # Errors
    /// It cannot be asked.
    fn ports(
        &mut self,
        switch: &str,
        links: [&str; 2],
    ) -> Result<Option<[PortRules; 2]>, Self::Error>;
}
