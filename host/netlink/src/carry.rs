//! Saves what an interface loses on moving to another namespace, and restores it there.
//!
//! A move sets the link down and removes its addresses and routes. Routes are saved as the kernel
//! reports them, attribute by attribute, so metric, scope, source, table, type and route metrics
//! are restored exactly. Not saved: what the kernel creates itself (link-local addresses, routes of
//! prefixes, routes learnt from router advertisements), neighbours, queueing disciplines, filters
//! and settings in /proc/sys. Specification: rtnetlink(7).

use std::sync::Arc;

use ipnet::IpNet;

use crate::address::Address;
use crate::batch::sealed::Encode;
use crate::batch::{Batch, Purpose, Request};
use crate::decode::{Message, array_at, attributes, u32_at};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::query::{Family, dump_question, is_link_local, next_hops, read_ip, unspecified};
use crate::socket::Socket;
use crate::uapi::*;

const RTA_CACHEINFO: u16 = 12;
const RTA_NH_ID: u16 = 30;
const RTPROT_KERNEL: u8 = 2;
const RTPROT_RA: u8 = 9;
const RT_TABLE_LOCAL: u8 = 255;
const RTNH_F_ONLINK: u32 = 4;

/// Addresses and routes of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Its addresses with their prefixes, both families.
    pub addresses: Vec<IpNet>,
    /// Routes over this and other interfaces together, which cannot be carried.
    pub left: Vec<IpNet>,
    routes: Vec<HeldRoute>,
}

/// A route as the kernel reported it, without its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HeldRoute {
    to: IpNet,
    fixed: [u8; 12],
    attributes: Vec<(u16, Vec<u8>)>,
}

impl Carried {
    /// Destinations of the routes that can be restored, in their order.
    pub fn routes(&self) -> impl Iterator<Item = IpNet> {
        self.routes.iter().map(|route| route.to)
    }

    /// Adds the requests that restore everything on the link with this index, which must be up.
    /// What exists already is renewed. `object` names the link in errors.
    pub fn push(&self, batch: &mut Batch, object: impl Into<Arc<str>>, link: u32) {
        let object = object.into();
        for address in &self.addresses {
            let request = Address { replace: true, ..Address::new(link, *address) };
            batch.push(format!("{object}: address {address}"), &request);
        }
        for route in &self.routes {
            batch.push_tolerant(format!("{object}: route to {}", route.to), &Given { route, link });
        }
    }
}

impl Socket {
    /// What a move takes from an interface.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn carried(&mut self, link: u32) -> Result<Carried> {
        let own = self.addresses()?.into_iter().filter(|a| a.link == link).map(|a| a.address);
        let mut carried = Carried {
            // The kernel makes such an address itself when the interface comes up.
            addresses: own.filter(|address| !is_link_local(address.addr())).collect(),
            ..Carried::default()
        };
        for family in [Family::V4, Family::V6] {
            let mut header = [0; 12];
            header[0] = family.number();
            let mut question = dump_question(RTM_GETROUTE, &header);
            let found = match self.dump(&mut question, "routes", |m| read(m, link)) {
                // A strict kernel returns ENOENT for a family without such a table yet.
                Err(Error::Refused(refusals)) if refusals[0].errno == libc::ENOENT => continue,
                found => found?,
            };
            for route in found {
                // Its other next hops are over links that do not move along.
                if route.attributes.iter().any(|(kind, _)| *kind == RTA_MULTIPATH) {
                    carried.left.push(route.to);
                } else {
                    carried.routes.push(route);
                }
            }
        }
        // A gateway must be reachable by the routes before it.
        carried.routes.sort_by_key(|route| {
            let direct = !route.attributes.iter().any(|(kind, _)| *kind == RTA_GATEWAY);
            (!direct, u8::MAX - route.to.prefix_len())
        });
        Ok(carried)
    }
}

/// A route over the link that the kernel did not make itself.
fn read(message: &Message<'_>, link: u32) -> Option<HeldRoute> {
    let mut fixed: [u8; 12] = array_at(message.payload, 0)?;
    let [family, length, _, _, table, origin, ..] = fixed;
    let flags = u32_at(&fixed, 8)?;
    let made = [RTPROT_KERNEL, RTPROT_RA].contains(&origin) || table == RT_TABLE_LOCAL;
    if message.kind != RTM_NEWROUTE || made || flags & RTM_F_CLONED != 0 {
        return None;
    }
    // The other flags tell the kernel's own state (dead, link down) and cannot be given.
    fixed[8..].copy_from_slice(&(flags & RTNH_F_ONLINK).to_ne_bytes());
    let (mut over, mut to) = (false, unspecified(family)?);
    let mut kept = Vec::new();
    for (kind, value) in attributes(message.payload.get(12..)?) {
        match kind {
            // Not kept: the link may have another index there.
            RTA_OIF => over |= u32_at(value, 0) == Some(link),
            // Reported in addition to the path that it stands for.
            RTA_CACHEINFO | RTA_NH_ID => {}
            _ => {
                if kind == RTA_DST {
                    to = read_ip(family, value)?;
                }
                over |= kind == RTA_MULTIPATH && next_hops(value).any(|index| index == link);
                kept.push((kind, value.to_vec()));
            }
        }
    }
    over.then_some(HeldRoute { to: IpNet::new(to, length).ok()?, fixed, attributes: kept })
}

/// A saved route over this link.
struct Given<'a> {
    route: &'a HeldRoute,
    link: u32,
}

impl Encode for Given<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let flags = REQUEST | CREATE | EXCLUSIVE;
        Encoder::message(bytes, RTM_NEWROUTE, flags, |encoder| {
            encoder.fixed(&self.route.fixed);
            for (kind, value) in &self.route.attributes {
                encoder.attribute(*kind, value);
            }
            encoder.u32(RTA_OIF, self.link);
        });
    }
}

impl Request for Given<'_> {
    fn operation(&self) -> &'static str {
        "add"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}
