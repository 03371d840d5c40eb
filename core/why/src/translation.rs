//! Other addresses that rules give to packets on their way, and what is not certain any more where these are not known.
//!
//! The first packet of a connection is translated by rules, everything after it by what connection tracking has kept: an answer
//! gets its destination back before it is routed, and its source before it leaves (`nf_nat_inet_fn`; the manipulations of
//! `enum nf_nat_manip_type` and their hooks in `HOOK2MANIP`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cause::CauseName;
use crate::facts::{Facts, Interface, Node};
use crate::flow::{Flow, Translation};
use crate::nft::translate::New;
use crate::walk::{Doubt, Stop, Translated, Walk, Walker};

impl<F: Facts> Walker<'_, F> {
    /// What a translation makes of the flow; `None` where that cannot be told.
    pub(crate) fn changed_by(
        &mut self,
        node: &Node,
        new: Option<&New>,
        (input, output): (Option<&str>, Option<&str>),
    ) -> Result<Option<Flow>, F::Error> {
        let Some(new) = new else { return Ok(None) };
        let mut flow = self.flow.clone();
        let same_family = |address: &IpAddr| address.is_ipv4() == flow.destination.is_ipv4();
        match new {
            New::Masqueraded => {
                let next = self.via.unwrap_or(flow.destination);
                let by = output.and_then(|name| node.interface(name));
                let Some(source) = by.and_then(|by| masquerading(by, next)) else {
                    return Ok(None);
                };
                flow.source = source;
            }
            New::Source(address, port) => {
                flow.source = address.filter(same_family).unwrap_or(flow.source);
                flow.ports[0] = port.unwrap_or(flow.ports[0]);
            }
            New::Redirected(port) => {
                let own = match input.map(|name| node.interface(name)) {
                    Some(by) => by.and_then(|by| redirecting(by, flow.destination.is_ipv4())),
                    None if flow.destination.is_ipv4() => Some(Ipv4Addr::LOCALHOST.into()),
                    None => Some(Ipv6Addr::LOCALHOST.into()),
                };
                let Some(own) = own else { return Ok(None) };
                (flow.destination, flow.to) = (own, node.name.clone());
                flow.ports[1] = port.unwrap_or(flow.ports[1]);
            }
            New::Destination(address, port) => {
                flow.ports[1] = port.unwrap_or(flow.ports[1]);
                if let Some(address) = address.filter(same_family) {
                    let owner = match node.has(address) {
                        true => Some(Some(node.name.clone())),
                        false => self.facts.planned_owner(address)?,
                    };
                    // Nobody is a receiver, too: the way to it tells where packets end.
                    let Some(owner) = owner.map(Option::unwrap_or_default) else { return Ok(None) };
                    (flow.destination, flow.to) = (address, owner);
                }
            }
        }
        if flow.protocol == crate::Protocol::Icmp {
            // Echo requests have an identifier, which stays if no other has it.
            flow.ports = self.flow.ports;
        }
        Ok(Some(flow))
    }

    /// Goes on with other addresses.
    pub(crate) fn becomes(&mut self, node: &Node, flow: Flow, rule: Option<String>) {
        let before = std::mem::replace(&mut self.flow, flow);
        if before == self.flow {
            return;
        }
        let (node, at) = (node.name.clone(), self.walk.places.len());
        self.walk.translations.push(Translation {
            node,
            at,
            before,
            after: self.flow.clone(),
            rule,
        });
    }

    /// An answer to packets whose source this node changed gets that as its destination.
    pub(crate) fn answered_source(&mut self, node: &Node) {
        self.answered(node, |flow, of| {
            let changed = (of.before.source, of.before.ports[0]);
            if (flow.destination, flow.ports[1]) == (of.after.source, of.after.ports[0]) {
                (flow.destination, flow.ports[1]) = changed;
            }
        });
    }

    /// An answer to packets whose destination this node changed gets that as its source.
    pub(crate) fn answered_destination(&mut self, node: &Node) {
        self.answered(node, |flow, of| {
            let changed = (of.before.destination, of.before.ports[1]);
            if (flow.source, flow.ports[0]) == (of.after.destination, of.after.ports[1]) {
                (flow.source, flow.ports[0]) = changed;
            }
        });
    }

    fn answered(&mut self, node: &Node, change: impl Fn(&mut Flow, &Translation)) {
        let Some(there) = self.there.filter(|_| self.follows) else { return };
        let mut flow = self.flow.clone();
        // What was changed last is taken back first.
        for of in there.translations.iter().rev().filter(|of| of.node == node.name) {
            change(&mut flow, of);
        }
        self.becomes(node, flow, None);
    }
}

/// The address that packets get that leave by an interface for a next hop (`inet_select_addr`; of IPv6 only where there is one).
fn masquerading(by: &Interface, next: IpAddr) -> Option<IpAddr> {
    let mut of_family = by.addresses.iter().filter(|net| net.addr().is_ipv4() == next.is_ipv4());
    if next.is_ipv4() {
        let first = of_family.clone().next();
        return of_family.find(|net| net.contains(&next)).or(first).map(ipnet::IpNet::addr);
    }
    only(of_family.map(ipnet::IpNet::addr))
}

/// The address that packets get that came by an interface and stay (`nf_nat_redirect_ipv4`: the first; of IPv6 only where there is
/// one).
fn redirecting(by: &Interface, four: bool) -> Option<IpAddr> {
    let mut of_family = by.addresses.iter().map(ipnet::IpNet::addr).filter(|a| a.is_ipv4() == four);
    if four { of_family.next() } else { only(of_family) }
}

/// The only address of IPv6 that is not of the link alone.
fn only(addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    let of_link = |address: &IpAddr| match address {
        IpAddr::V6(six) => six.is_unicast_link_local(),
        IpAddr::V4(_) => false,
    };
    let mut all = addresses.filter(|address| !of_link(address));
    all.next().filter(|_| all.next().is_none())
}

impl Translated {
    /// Whether a stop rests on an address that may be another. The source matters to rules and to `rp_filter`.
    fn concerns(self, at: usize, stop: &Stop) -> bool {
        let behind = |first: Option<usize>| first.is_some_and(|first| at >= first);
        let of_source = [CauseName::NftDrop, CauseName::NftReject, CauseName::ReversePathFilter];
        behind(self.destination) || behind(self.source) && of_source.contains(&stop.cause.name)
    }
}

impl Walk {
    /// Turns stops that rest on addresses which may be others into doubts.
    pub(crate) fn doubt_behind(&mut self, translated: Translated) {
        let mut at = 0;
        self.doubt_if(|stop| {
            at += 1;
            translated.concerns(at - 1, stop)
        });
    }

    /// What packets of a flow that begins as `first` are at a place of the way.
    pub fn flow_at<'a>(&'a self, first: &'a Flow, place: usize) -> &'a Flow {
        let before = self.translations.iter().rev().find(|of| of.at <= place);
        before.map_or(first, |of| &of.after)
    }

    /// The flow of the answers to packets that came here as `first`.
    pub fn answer(&self, first: &Flow) -> Flow {
        self.flow_at(first, usize::MAX).back()
    }

    /// The way of the answers to packets that went that way. Until an answer comes to the node that translated what it
    /// answers, its addresses are others than those that were looked up.
    #[must_use]
    pub(crate) fn answering(&self, there: &Walk) -> Walk {
        let mut walk = self.clone();
        if let Some(node) = &there.translated_by {
            let at = walk.places.iter().position(|place| place.node.as_ref() == Some(node));
            let until = at.unwrap_or(usize::MAX);
            walk.doubt_if(|stop| stop.from <= until);
        }
        walk
    }

    fn doubt_if(&mut self, mut is_unsure: impl FnMut(&Stop) -> bool) {
        for stop in std::mem::take(&mut self.stops) {
            if is_unsure(&stop) {
                let text = format!("{}, if the packet still has its addresses", stop.cause.text);
                self.doubts.push(Doubt { from: stop.from, to: stop.to, text });
            } else {
                self.stops.push(stop);
            }
        }
        self.doubts.sort_by_key(|doubt| doubt.from);
    }
}
