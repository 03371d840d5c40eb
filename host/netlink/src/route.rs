//! Requests for routes of the main table.
//!
//! Routes made here have the origin `static`. A default route is one to `0.0.0.0/0` or `::/0`.
//! Specification: rtnetlink(7).

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{family, ip};
use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::encode::Encoder;
use crate::query::RouteKind;
use crate::uapi::*;

/// Adds a route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The destination; bits beyond the prefix are ignored.
    pub to: IpNet,
    /// The gateway, of the same family; `None` if the destination is on the link itself.
    pub via: Option<IpAddr>,
    /// Index of the egress link; found through `via` if `None`.
    pub link: Option<u32>,
    /// Preference, lower first; the family's default if `None` (IPv4 0, IPv6 1024).
    pub metric: Option<u32>,
    /// Whether it replaces a route to the same destination with the same metric.
    pub replace: bool,
}

impl Route {
    /// A new route through the link with this index.
    #[must_use]
    pub fn new(to: IpNet, via: Option<IpAddr>, link: u32) -> Self {
        Self { to, via, link: Some(link), metric: None, replace: false }
    }
}

impl Encode for Route {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let mode = if self.replace { REPLACE } else { EXCLUSIVE };
        // The kernel looks for a gateway among routes of scope link, so direct ones need it.
        let scope = if self.via.is_none() && self.to.addr().is_ipv4() {
            RT_SCOPE_LINK
        } else {
            RT_SCOPE_UNIVERSE
        };
        Encoder::message(bytes, RTM_NEWROUTE, REQUEST | CREATE | mode, |encoder| {
            encoder.fixed(&header(self.to, RTPROT_STATIC, scope, RTN_UNICAST));
            path(encoder, self.to, self.via, self.link, self.metric);
        });
    }
}

impl Request for Route {
    fn operation(&self) -> &'static str {
        "add"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// Adds a route with several next hops, which share its traffic by flow.
#[derive(Clone, Copy, Debug)]
pub struct Multipath<'a> {
    /// The destination; bits beyond the prefix are ignored.
    pub to: IpNet,
    /// The gateways, of the same family, and the indexes of their links.
    pub hops: &'a [(IpAddr, u32)],
    /// Whether it replaces a route to the same destination with the same metric.
    pub replace: bool,
}

impl Encode for Multipath<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let mode = if self.replace { REPLACE } else { EXCLUSIVE };
        Encoder::message(bytes, RTM_NEWROUTE, REQUEST | CREATE | mode, |encoder| {
            encoder.fixed(&header(self.to, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RTN_UNICAST));
            path(encoder, self.to, None, None, None);
            encoder.nest(RTA_MULTIPATH, |encoder| {
                for (via, link) in self.hops {
                    encoder.next_hop(*link, |encoder| ip(encoder, RTA_GATEWAY, *via));
                }
            });
        });
    }
}

impl Request for Multipath<'_> {
    fn operation(&self) -> &'static str {
        "add"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// Removes the first route to a destination that matches the given fields.
#[derive(Clone, Copy, Debug)]
pub struct DeleteRoute {
    /// The destination.
    pub to: IpNet,
    /// Its gateway; any if `None`.
    pub via: Option<IpAddr>,
    /// Index of its link; any if `None`.
    pub link: Option<u32>,
    /// Its metric; any if `None`.
    pub metric: Option<u32>,
    /// Its kind; any if `None`.
    pub kind: Option<RouteKind>,
    /// Only one that [`Route`] or [`Multipath`] added, not the kernel's own to a prefix of an interface.
    pub added: bool,
}

impl DeleteRoute {
    /// Removes a route to this destination, whatever its path.
    #[must_use]
    pub fn new(to: IpNet) -> Self {
        Self { to, via: None, link: None, metric: None, kind: None, added: false }
    }
}

impl Encode for DeleteRoute {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_DELROUTE, REQUEST, |encoder| {
            let kind = self.kind.map_or(0, RouteKind::number);
            // RT_SCOPE_NOWHERE and 0 match any scope, origin and type.
            let origin = if self.added { RTPROT_STATIC } else { 0 };
            encoder.fixed(&header(self.to, origin, RT_SCOPE_NOWHERE, kind));
            path(encoder, self.to, self.via, self.link, self.metric);
        });
    }
}

impl Request for DeleteRoute {
    fn operation(&self) -> &'static str {
        "delete"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

/// `struct rtmsg`: family, lengths of destination and source, tos, table, origin, scope, type,
/// flags.
fn header(to: IpNet, origin: u8, scope: u8, kind: u8) -> [u8; 12] {
    [family(to.addr()), to.prefix_len(), 0, 0, RT_TABLE_MAIN, origin, scope, kind, 0, 0, 0, 0]
}

fn path(
    encoder: &mut Encoder<'_>,
    to: IpNet,
    via: Option<IpAddr>,
    link: Option<u32>,
    metric: Option<u32>,
) {
    // Without a destination it is a default route.
    if to.prefix_len() > 0 {
        ip(encoder, RTA_DST, to.network());
    }
    if let Some(via) = via {
        ip(encoder, RTA_GATEWAY, via);
    }
    if let Some(link) = link {
        encoder.u32(RTA_OIF, link);
    }
    if let Some(metric) = metric {
        encoder.u32(RTA_PRIORITY, metric);
    }
}
