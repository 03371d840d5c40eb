//! Queries for links, addresses and routes of the socket's namespace.
//!
//! Lists are complete and consistent: a table that changed while it was read is read again.
//! Malformed entries are skipped. Specification: rtnetlink(7).

mod answers;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ipnet::IpNet;

pub(crate) use answers::{is_link_local, next_hops, read_ip, unspecified};
use answers::{read_address, read_discipline, read_link, read_root_discipline, read_route};

use crate::decode::{attributes, u32_at};
use crate::encode::Encoder;
use crate::error::{Error, Refusal, Result};
use crate::link::{LinkRef, addressed, header};
use crate::socket::Socket;
use crate::uapi::*;

/// Operational state of a link (RFC 2863).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operational {
    /// Not reported by the driver; for example loopback and dummy links.
    Unknown,
    /// A component is missing.
    NotPresent,
    /// No carrier, or set down.
    Down,
    /// The lower link is down.
    LowerLayerDown,
    /// In test mode.
    Testing,
    /// Waits for an event.
    Dormant,
    /// Can carry packets.
    Up,
}

impl Operational {
    fn from_kernel(state: u8) -> Self {
        match state {
            1 => Self::NotPresent,
            2 => Self::Down,
            3 => Self::LowerLayerDown,
            4 => Self::Testing,
            5 => Self::Dormant,
            6 => Self::Up,
            _ => Self::Unknown,
        }
    }
}

/// Traffic of a link since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Damaged packets received.
    pub rx_errors: u64,
    /// Packets not sent because of an error.
    pub tx_errors: u64,
    /// Packets received and dropped for lack of room or of a receiver.
    pub rx_dropped: u64,
    /// Outgoing packets dropped.
    pub tx_dropped: u64,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// Interface index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Hardware address, if it has six bytes.
    pub mac: Option<[u8; 6]>,
    /// Largest packet in bytes, link header excluded.
    pub mtu: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it asks for hardware addresses, and answers who asks for its own.
    pub arp: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// The kernel's summary of its state.
    pub operational: Operational,
    /// Type, e.g. `veth`, `bridge`; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// Index of its bridge, if it is a port.
    pub master: Option<u32>,
    /// Index of its peer or lower link, in the namespace of `peer_netns`.
    pub peer: Option<u32>,
    /// This namespace's id for the peer's namespace; `None` if it is the same.
    pub peer_netns: Option<i32>,
    /// Its queueing discipline, e.g. `noqueue`; empty if not reported.
    pub discipline: String,
    /// Its settings, as `/proc/sys/net/*/conf/` has them.
    pub settings: LinkSettings,
    /// Counters; zero if not requested.
    pub traffic: Traffic,
}

impl LinkInfo {
    /// Whether sent frames leave, for links whose drivers report a carrier. The end of a pair that
    /// was set up before the other gets its queueing discipline only when the kernel has processed
    /// its carrier event; until then it drops frames without telling the sender.
    pub fn carries(&self) -> bool {
        self.operational == Operational::Up
    }
}

/// The settings of a link that the kernel reports with it: without a file in `/proc/sys` for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    ipv4: Vec<u32>,
    ipv6: Vec<u32>,
}

/// Places in `IFLA_INET_CONF` (`linux/ip.h`, `IPV4_DEVCONF_*`, minus 1) and in `IFLA_INET6_CONF` (`linux/ipv6.h`, `DEVCONF_*`).
const IPV4_SETTINGS: [(&str, usize); 6] = [
    ("forwarding", 0),
    ("accept_redirects", 3),
    ("send_redirects", 5),
    ("rp_filter", 7),
    ("arp_announce", 17),
    ("arp_ignore", 18),
];
const IPV6_SETTINGS: [(&str, usize); 5] = [
    ("forwarding", 0),
    ("accept_ra", 3),
    ("accept_redirects", 4),
    ("disable_ipv6", 26),
    ("accept_dad", 27),
];

impl LinkSettings {
    /// The settings of a family by name, as far as this crate knows them; none where the link has not this family.
    pub fn of(&self, family: Family) -> impl Iterator<Item = (&'static str, u32)> {
        let (names, values) = match family {
            Family::V4 => (&IPV4_SETTINGS[..], &self.ipv4),
            Family::V6 => (&IPV6_SETTINGS[..], &self.ipv6),
        };
        names.iter().filter_map(|(name, at)| Some((*name, *values.get(*at)?)))
    }

    /// Decodes `IFLA_AF_SPEC`.
    fn read(value: &[u8]) -> LinkSettings {
        let words = |value: &[u8]| -> Vec<u32> {
            value.chunks_exact(4).filter_map(|word| u32_at(word, 0)).collect()
        };
        let inner = |family: &[u8], wanted: u16| {
            attributes(family).find(|(kind, _)| *kind == wanted).map(|(_, value)| words(value))
        };
        let mut settings = LinkSettings::default();
        for (family, value) in attributes(value) {
            match u8::try_from(family) {
                Ok(AF_INET) => settings.ipv4 = inner(value, IFLA_INET_CONF).unwrap_or_default(),
                Ok(AF_INET6) => settings.ipv6 = inner(value, IFLA_INET6_CONF).unwrap_or_default(),
                _ => {}
            }
        }
        settings
    }
}

/// The queueing discipline at the root of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisciplineInfo {
    /// Interface index.
    pub link: u32,
    /// Its kind, e.g. `tbf`.
    pub kind: String,
    /// Packets that wait in it.
    pub waiting: u32,
    /// Packets that it has dropped.
    pub dropped: u32,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressInfo {
    /// Interface index.
    pub link: u32,
    /// Address and prefix length.
    pub address: IpNet,
    /// Whether somebody gave it for good: no lease, no router advertisement and not the kernel, as far as the kernel tells.
    pub given: bool,
}

/// Address family of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::V4 => AF_INET,
            Self::V6 => AF_INET6,
        }
    }
}

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// The destination.
    pub to: IpNet,
    /// The gateway; `None` for a destination on the link, or for several paths.
    pub via: Option<IpAddr>,
    /// Indexes of the egress links: one, or one for each of several paths.
    pub links: Vec<u32>,
    /// Preference, lower first.
    pub metric: u32,
    /// Its origin: 2 the kernel, 3 boot, 4 static (`linux/rtnetlink.h`, `RTPROT_*`).
    pub origin: u8,
    /// The gateways of several paths, in the order of `links`; empty for one path.
    pub gateways: Vec<Option<IpAddr>>,
    /// Its kind.
    pub kind: RouteKind,
}

/// What a route does with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteKind {
    /// They go on.
    #[default]
    Unicast,
    /// They are dropped in silence.
    Blackhole,
    /// They are dropped, and the sender hears `host unreachable`.
    Unreachable,
    /// They are dropped, and the sender hears `communication prohibited`.
    Prohibit,
}

impl RouteKind {
    fn from_kernel(kind: u8) -> Option<RouteKind> {
        match kind {
            RTN_UNICAST => Some(RouteKind::Unicast),
            RTN_BLACKHOLE => Some(RouteKind::Blackhole),
            RTN_UNREACHABLE => Some(RouteKind::Unreachable),
            RTN_PROHIBIT => Some(RouteKind::Prohibit),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            RouteKind::Unicast => RTN_UNICAST,
            RouteKind::Blackhole => RTN_BLACKHOLE,
            RouteKind::Unreachable => RTN_UNREACHABLE,
            RouteKind::Prohibit => RTN_PROHIBIT,
        }
    }
}

impl RouteInfo {
    /// Its paths: the gateway, `None` on the link itself, and the index of the link.
    pub fn paths(&self) -> Vec<(Option<IpAddr>, u32)> {
        let gateway = |at: usize| match self.gateways.get(at) {
            Some(several) => *several,
            None => self.via,
        };
        self.links.iter().enumerate().map(|(at, link)| (gateway(at), *link)).collect()
    }
}

impl Socket {
    /// All links, with counters.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn links(&mut self) -> Result<Vec<LinkInfo>> {
        let mut question = dump_question(RTM_GETLINK, &header(0, 0, 0));
        self.dump(&mut question, "links", read_link)
    }

    /// The same of the namespace that has this id in the socket's own. What IPv6 counts, which nobody reads, is a quarter of
    /// such an answer, and is left out; the counters of links themselves come in any case.
    pub(crate) fn links_of(&mut self, space: i32) -> Result<Vec<LinkInfo>> {
        let mut question = Vec::with_capacity(64);
        Encoder::message(&mut question, RTM_GETLINK, REQUEST | DUMP, |encoder| {
            encoder.fixed(&header(0, 0, 0));
            encoder.u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
            encoder.attribute(IFLA_TARGET_NETNSID, &space.to_ne_bytes());
        });
        self.dump(&mut question, "links", read_link)
    }

    /// One link by name or index, with counters; `None` if there is no such link.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Failed`] or [`Error::Answer`].
    pub fn link<'a>(&mut self, link: impl Into<LinkRef<'a>>) -> Result<Option<LinkInfo>> {
        self.ask_link(link.into(), 0)
    }

    /// The index of the link with this name.
    ///
    /// # Errors
    /// [`Error::Refused`] with `ENODEV` if there is none; else as [`Socket::link`].
    pub fn index_of(&mut self, name: &str) -> Result<u32> {
        match self.ask_link(LinkRef::Name(name), RTEXT_FILTER_SKIP_STATS)? {
            Some(link) => Ok(link.index),
            None => Err(Error::Refused(vec![Refusal {
                object: format!("link {name:?}").into(),
                operation: "find",
                errno: libc::ENODEV,
                explanation: None,
            }])),
        }
    }

    /// All links, without counters.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn links_alone(&mut self) -> Result<Vec<LinkInfo>> {
        let mut question = Vec::with_capacity(64);
        Encoder::message(&mut question, RTM_GETLINK, REQUEST | DUMP, |encoder| {
            encoder.fixed(&header(0, 0, 0));
            encoder.u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
        });
        self.dump(&mut question, "links", read_link)
    }

    /// All addresses, both families.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Failed`]; [`Error::Changing`] if the table changed in every
    /// attempt.
    pub fn addresses(&mut self) -> Result<Vec<AddressInfo>> {
        let mut question = dump_question(RTM_GETADDR, &[0; 8]);
        self.dump(&mut question, "addresses", read_address)
    }

    /// The packets that root queueing disciplines of this namespace's links dropped.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn dropped_by_disciplines(&mut self) -> Result<u64> {
        let mut question = dump_question(RTM_GETQDISC, &[0; 20]);
        let drops = self.dump(&mut question, "queueing disciplines", read_discipline)?;
        Ok(drops.into_iter().map(u64::from).sum())
    }

    /// The queueing disciplines at the root of this namespace's links, with what they have dropped.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn disciplines(&mut self) -> Result<Vec<DisciplineInfo>> {
        let mut question = dump_question(RTM_GETQDISC, &[0; 20]);
        self.dump(&mut question, "queueing disciplines", read_root_discipline)
    }

    /// The unicast routes of the main table in one family.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn routes(&mut self, family: Family) -> Result<Vec<RouteInfo>> {
        let mut all = self.routes_of_all_kinds(family)?;
        all.retain(|route| route.kind == RouteKind::Unicast);
        Ok(all)
    }

    /// The routes of the main table in one family, also those that drop packets.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn routes_of_all_kinds(&mut self, family: Family) -> Result<Vec<RouteInfo>> {
        let mut main = [0; 12];
        main[0] = family.number();
        main[4] = RT_TABLE_MAIN;
        let mut question = dump_question(RTM_GETROUTE, &main);
        // A strict kernel returns ENOENT for a family without such a table yet.
        match self.dump(&mut question, "routes", read_route) {
            Err(Error::Refused(refusals)) if refusals[0].errno == libc::ENOENT => Ok(Vec::new()),
            outcome => outcome,
        }
    }

    /// Indexes of the egress links of default routes, both families, best metric first within each,
    /// without duplicates.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn uplinks(&mut self) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for family in [Family::V4, Family::V6] {
            let mut routes = self.routes(family)?;
            routes.retain(|route| route.to.prefix_len() == 0);
            // The sort is stable: equal metrics stay in the kernel's order.
            routes.sort_by_key(|route| route.metric);
            for link in routes.iter().flat_map(|route| &route.links) {
                if !found.contains(link) {
                    found.push(*link);
                }
            }
        }
        Ok(found)
    }

    fn ask_link(&mut self, link: LinkRef<'_>, filter: u32) -> Result<Option<LinkInfo>> {
        let object = match link {
            LinkRef::Index(index) => format!("link {index}"),
            LinkRef::Name(name) => format!("link {name:?}"),
        };
        let mut question = Vec::with_capacity(64);
        Encoder::message(&mut question, RTM_GETLINK, REQUEST, |encoder| {
            addressed(encoder, link, 0, 0);
            encoder.u32(IFLA_EXT_MASK, filter);
        });
        self.ask(&mut question, (&object, "find"), &[libc::ENODEV], read_link)
    }
}

pub(crate) fn dump_question(kind: u16, header: &[u8]) -> Vec<u8> {
    let mut question = Vec::with_capacity(64);
    Encoder::message(&mut question, kind, REQUEST | DUMP, |encoder| encoder.fixed(header));
    question
}
