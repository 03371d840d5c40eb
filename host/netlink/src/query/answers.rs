//! Decodes the kernel's answers: links, addresses, routes and queueing disciplines. Specification: rtnetlink(7).

use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    AddressInfo, DisciplineInfo, LinkInfo, LinkSettings, Operational, RouteInfo, RouteKind, Traffic,
};
use crate::decode::{Message, array_at, attributes, i32_at, string, u8_at, u16_at, u32_at, u64_at};
use crate::uapi::*;

/// Decodes `struct ifinfomsg` and its attributes.
pub(super) fn read_link(message: &Message<'_>) -> Option<LinkInfo> {
    if message.kind != RTM_NEWLINK {
        return None;
    }
    let mut link = LinkInfo {
        index: u32_at(message.payload, 4)?,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: u32_at(message.payload, 8)? & IFF_UP != 0,
        arp: u32_at(message.payload, 8)? & IFF_NOARP == 0,
        carrier: false,
        operational: Operational::Unknown,
        kind: None,
        master: None,
        peer: None,
        peer_netns: None,
        discipline: String::new(),
        settings: LinkSettings::default(),
        traffic: Traffic::default(),
    };
    for (kind, value) in attributes(message.payload.get(16..)?) {
        read_link_attribute(&mut link, kind, value);
    }
    Some(link)
}

fn read_link_attribute(link: &mut LinkInfo, kind: u16, value: &[u8]) {
    match kind {
        IFLA_IFNAME => link.name = string(value),
        // None on links that are not Ethernet: their addresses have other lengths.
        IFLA_ADDRESS => link.mac = value.try_into().ok(),
        IFLA_MTU => link.mtu = u32_at(value, 0).unwrap_or(0),
        IFLA_MASTER => link.master = u32_at(value, 0).filter(|index| *index != 0),
        IFLA_LINK => link.peer = u32_at(value, 0).filter(|index| *index != 0),
        IFLA_LINK_NETNSID => link.peer_netns = i32_at(value, 0),
        IFLA_AF_SPEC => link.settings = LinkSettings::read(value),
        IFLA_QDISC => link.discipline = string(value),
        IFLA_CARRIER => link.carrier = u8_at(value, 0) == Some(1),
        IFLA_OPERSTATE => link.operational = Operational::from_kernel(u8_at(value, 0).unwrap_or(0)),
        IFLA_STATS64 => link.traffic = read_traffic(value).unwrap_or_default(),
        IFLA_LINKINFO => {
            let info = attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND);
            link.kind = info.map(|(_, value)| string(value));
        }
        _ => {}
    }
}

/// The beginning of `struct rtnl_link_stats64`.
fn read_traffic(value: &[u8]) -> Option<Traffic> {
    Some(Traffic {
        rx_packets: u64_at(value, 0)?,
        tx_packets: u64_at(value, 8)?,
        rx_bytes: u64_at(value, 16)?,
        tx_bytes: u64_at(value, 24)?,
        rx_errors: u64_at(value, 32)?,
        tx_errors: u64_at(value, 40)?,
        rx_dropped: u64_at(value, 48)?,
        tx_dropped: u64_at(value, 56)?,
    })
}

/// The drops in a `struct tcmsg` with statistics, of a root discipline: one below it has been counted there.
pub(super) fn read_discipline(message: &Message<'_>) -> Option<u32> {
    read_root_discipline(message).map(|discipline| discipline.dropped)
}

pub(super) fn read_root_discipline(message: &Message<'_>) -> Option<DisciplineInfo> {
    // `struct tcmsg`: family and padding, interface, handle, parent.
    if message.kind != RTM_NEWQDISC || u32_at(message.payload, 12)? != TC_H_ROOT {
        return None;
    }
    let find = |list, wanted| attributes(list).find(|(kind, _)| *kind == wanted);
    let list = message.payload.get(20..)?;
    let (_, statistics) = find(list, TCA_STATS2)?;
    let (_, queue) = find(statistics, TCA_STATS_QUEUE)?;
    // `struct gnet_stats_queue`: length, backlog, drops.
    Some(DisciplineInfo {
        link: u32_at(message.payload, 4)?,
        kind: find(list, TCA_KIND).map(|(_, name)| string(name)).unwrap_or_default(),
        waiting: u32_at(queue, 0)?,
        dropped: u32_at(queue, 8)?,
    })
}

pub(super) fn read_address(message: &Message<'_>) -> Option<AddressInfo> {
    if message.kind != RTM_NEWADDR {
        return None;
    }
    let family = u8_at(message.payload, 0)?;
    let prefix = u8_at(message.payload, 1)?;
    let mut flags = u32::from(u8_at(message.payload, 2)?);
    let link = u32_at(message.payload, 4)?;
    let (mut own, mut shared, mut origin) = (None, None, 0);
    for (kind, value) in attributes(message.payload.get(8..)?) {
        match kind {
            IFA_LOCAL => own = read_ip(family, value),
            IFA_ADDRESS => shared = read_ip(family, value),
            // The header has room for eight flags only.
            IFA_FLAGS => flags = u32_at(value, 0).unwrap_or(flags),
            IFA_PROTO => origin = u8_at(value, 0).unwrap_or(0),
            _ => {}
        }
    }
    // On point-to-point links IFA_ADDRESS is the peer's address.
    let address = IpNet::new(own.or(shared)?, prefix).ok()?;
    // An address with a lifetime is a lease or from an advertisement. Kernels before 5.18 do not report the origin.
    let given = flags & IFA_F_PERMANENT != 0 && origin == 0 && !is_link_local(address.addr());
    Some(AddressInfo { link, address, given })
}

/// Whether the kernel makes such an address itself.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.is_unicast_link_local())
}

/// Decodes `struct rtmsg` and its attributes; `None` for other tables and types of routes.
pub(super) fn read_route(message: &Message<'_>) -> Option<RouteInfo> {
    let fixed: [u8; 8] = array_at(message.payload, 0)?;
    let [family, length, _, _, table, origin, _, kind] = fixed;
    let cloned = u32_at(message.payload, 8)? & RTM_F_CLONED != 0;
    // Local and broadcast routes follow from addresses: the kernel keeps them.
    let kind = RouteKind::from_kernel(kind)?;
    if message.kind != RTM_NEWROUTE || cloned {
        return None;
    }
    let mut table = u32::from(table);
    let mut to = unspecified(family)?;
    let mut route = RouteInfo {
        to: IpNet::new(to, 0).ok()?,
        via: None,
        links: Vec::new(),
        metric: 0,
        origin,
        gateways: Vec::new(),
        kind,
    };
    for (kind, value) in attributes(message.payload.get(12..)?) {
        match kind {
            // The header's byte cannot hold numbers above 255.
            RTA_TABLE => table = u32_at(value, 0)?,
            RTA_DST => to = read_ip(family, value)?,
            RTA_GATEWAY => route.via = read_ip(family, value),
            RTA_VIA => route.via = read_via(value),
            RTA_OIF => route.links.extend(u32_at(value, 0)),
            RTA_PRIORITY => route.metric = u32_at(value, 0)?,
            RTA_MULTIPATH => {
                for (link, attributes) in paths(value) {
                    route.links.push(link);
                    route.gateways.push(gateway(family, attributes));
                }
            }
            _ => {}
        }
    }
    route.to = IpNet::new(to, length).ok()?;
    // Kernels before 4.20 send all tables, whatever was asked for.
    (table == u32::from(RT_TABLE_MAIN)).then_some(route)
}

/// The links in a list of `struct rtnexthop`.
pub(crate) fn next_hops(list: &[u8]) -> impl Iterator<Item = u32> {
    paths(list).map(|(link, _)| link)
}

/// The links in a list of `struct rtnexthop` (length, flags, weight, index), each with its attributes.
fn paths(list: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let link = u32_at(rest, 4)?;
        let own = rest.get(8..length).unwrap_or_default();
        // At least a header's bytes, so that a wrong length does not stop the walk's advance.
        rest = rest.get(length.max(8).next_multiple_of(4)..).unwrap_or_default();
        Some((link, own))
    })
}

/// The gateway among the attributes of a path.
fn gateway(family: u8, path: &[u8]) -> Option<IpAddr> {
    attributes(path).find_map(|(kind, value)| match kind {
        RTA_GATEWAY => read_ip(family, value),
        RTA_VIA => read_via(value),
        _ => None,
    })
}

/// A gateway of another family, `struct rtvia`: the family, and the address.
fn read_via(value: &[u8]) -> Option<IpAddr> {
    read_ip(u8::try_from(u16_at(value, 0)?).ok()?, value.get(2..)?)
}

pub(crate) fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        AF_INET => Some(IpAddr::from([0u8; 4])),
        AF_INET6 => Some(IpAddr::from([0u8; 16])),
        _ => None,
    }
}

pub(crate) fn read_ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => array_at::<4>(value, 0).map(IpAddr::from),
        AF_INET6 => array_at::<16>(value, 0).map(IpAddr::from),
        _ => None,
    }
}
