//! What a node lacks: an address, an interface, a route.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, Interface, Life, Node, PlannedInterface};
use crate::flow::Protocol;
use crate::report::{Report, Verdict};
use crate::routes::{PlannedHop, planned, table_name};
use crate::walk::Walker;

/// The port of clients of DHCP (RFC 2131, section 4.1).
const DHCP_CLIENT: u16 = 68;

/// The answer where nothing can be sent, since ends of the flow have no address of `families`, neither now nor by the plan.
pub fn without_address(
    [from, to]: [&str; 2],
    (protocol, port): (Protocol, Option<u16>),
    families: &str,
    lacking: &[&Node],
) -> Report {
    let cause = |node: &&Node| {
        let name = &node.name;
        let text =
            format!("node {name} has no address of {families}, and the lab's file gives it none");
        let mut cause = Cause::new(CauseName::AddressMissing, format!("node {name}"), text);
        if node.life == Life::Guest {
            return cause.evidence(format!(
                "{name} is a virtual machine: what its own programs set is not known"
            ));
        }
        let own = node.interfaces.iter().filter(|interface| interface.name != "lo");
        cause.evidence.extend(own.map(|interface| held(name, interface)));
        let client =
            |l: &&crate::facts::Listener| l.protocol == 17 && l.local.port() == DHCP_CLIENT;
        if node.listeners.iter().any(|listener| client(&listener)) {
            cause.evidence.push(format!(
                "a DHCP client of node {name} waits for an answer at port {DHCP_CLIENT}"
            ));
        }
        cause
    };
    let without = |end: &str| lacking.iter().any(|node| node.name == end);
    let address = |end: &str| if without(end) { "no address" } else { "an address" }.to_owned();
    Report {
        from: from.to_owned(),
        to: to.to_owned(),
        source: address(from),
        destination: address(to),
        protocol,
        port,
        probe: "nothing".to_owned(),
        verdict: Verdict::Stopped,
        causes: lacking.iter().map(cause).collect(),
        ..Report::default()
    }
}

/// What an interface has, in words.
fn held(node: &str, interface: &Interface) -> String {
    let state = match (interface.up, interface.carrier) {
        (false, _) => "is down",
        (true, false) => "has no carrier",
        (true, true) => "is up",
    };
    let all: Vec<String> = interface.addresses.iter().map(IpNet::to_string).collect();
    let has = match all.is_empty() {
        true => "no address".to_owned(),
        false if interface.addresses.iter().all(local) => {
            format!("only {}, which is good on its link alone", all.join(", "))
        }
        false => all.join(", "),
    };
    format!("{node}:{} {state}, and has {has}", interface.name)
}

impl<F: Facts> Walker<'_, F> {
    /// A planned address that is not there: or its interface is not, or is down.
    pub(crate) fn lacks_address(
        &self,
        node: &Node,
        planned: &PlannedInterface,
        address: IpAddr,
    ) -> Cause {
        let (name, interface) = (&node.name, &planned.name);
        let place = format!("node {name}");
        let net = planned.addresses.iter().find(|net| net.addr() == address);
        match node.interface(interface) {
            None => Cause::new(
                CauseName::InterfaceMissing,
                place,
                format!("interface {interface} is not in node {name}"),
            )
            .evidence(format!(
                "the plan has {name}:{interface} as an end of link {}",
                planned.link
            )),
            Some(found) if !found.up => self.down(node, interface),
            Some(found) => {
                let has: Vec<String> = found.addresses.iter().map(IpNet::to_string).collect();
                let other = found
                    .addresses
                    .iter()
                    .any(|n| n.addr().is_ipv4() == address.is_ipv4() && !local(n));
                // The same address with another prefix makes another segment of it.
                let same = found.addresses.iter().find(|n| n.addr() == address && Some(*n) != net);
                if let Some((same, net)) = same.zip(net) {
                    let text = format!("{name}:{interface} has {same} instead of the plan's {net}");
                    let add = self.exec(name, &format!("ip addr add {net} dev {interface}"));
                    let del = self.exec(name, &format!("ip addr del {same} dev {interface}"));
                    return Cause::new(CauseName::WrongAddress, place, text)
                        .evidence(format!("by {same} others are on the segment of {name}:{interface} than by the plan"))
                        .mend(format!("{add} && {del}"));
                }
                let (cause, text) = match other {
                    true => (
                        CauseName::WrongAddress,
                        format!("{name}:{interface} has another address than the plan's {address}"),
                    ),
                    false => (
                        CauseName::AddressMissing,
                        format!("{name}:{interface} lacks its address {address}"),
                    ),
                };
                let cause = Cause::new(cause, place, text);
                let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
                let cause = cause.evidence(format!("addresses of {name}:{interface} are {has}"));
                let Some(net) = net else { return cause };
                let add = self.exec(name, &format!("ip addr add {net} dev {interface}"));
                if !(found.ipv6_off && address.is_ipv6()) {
                    return cause.mend(add);
                }
                let setting = format!("net.ipv6.conf.{}.disable_ipv6", interface.replace('.', "/"));
                let on = self.exec(name, &format!("sysctl -w {setting}=0"));
                cause
                    .evidence(format!("{setting} of node {name} is 1"))
                    .mend(format!("{on} && {add}"))
            }
        }
    }

    /// No route: or what the plan's route needs is not there.
    pub(crate) fn without_route(&mut self, node: &Node) -> Result<Cause, F::Error> {
        let (to, name) = (self.flow.destination, &node.name);
        if let Some(cause) = self.foreign_source(node)? {
            return Ok(cause);
        }
        let plan = planned(node, to);
        let first = plan.as_ref().and_then(PlannedHop::first);
        let needed = first.and_then(|(via, by)| {
            let interface = node.planned_interface(by)?;
            let hop = via.unwrap_or(to);
            let own = interface.addresses.iter().find(|net| net.contains(&hop))?;
            Some((interface, *own))
        });
        if let Some((interface, own)) = needed {
            let found = node.interface(&interface.name);
            if found.is_none()
                && let Some(dead) = self.dead_peer(name, &interface.name)?
            {
                return Ok(dead);
            }
            if found.is_none_or(|i| !i.up || !i.addresses.contains(&own)) {
                let mut cause = self
                    .lacks_address(node, interface, own.addr())
                    .evidence(format!("so node {name} has no route to {to}"));
                self.also_route(&mut cause, name, plan.as_ref());
                return Ok(cause);
            }
        }
        let cause = Cause::new(
            CauseName::NoRoute,
            format!("node {name}"),
            format!("node {name} has no route to {to}"),
        );
        let all = self.facts.discarding(name, to)?;
        let throws = all.iter().filter(|r| r.kind == "throw" && r.to.contains(&to));
        if let Some(thrown) = throws.max_by_key(|r| r.to.prefix_len()) {
            let (prefix, table) = (thrown.to, table_name(thrown.table));
            return Ok(cause
                .evidence(format!("throw {prefix} ends the look-up in table {table} of node {name}, and no rule after it has a route"))
                .mend(self.exec(name, &format!("ip route del throw {prefix} table {table}"))));
        }
        Ok(match (plan.as_ref().and_then(|plan| plan.to), first) {
            (Some(prefix), Some((via, by))) => {
                let via = via.map_or_else(String::new, |via| format!(" via {via}"));
                cause
                    .evidence(format!("the plan's route {prefix}{via} dev {by} is not there"))
                    .mend(self.exec(name, &format!("ip route add {prefix}{via} dev {by}")))
            }
            (None, Some((None, by))) => {
                let own = node.planned_interface(by);
                let own = own.and_then(|i| i.addresses.iter().find(|net| net.contains(&to)));
                let Some(own) = own else { return Ok(cause) };
                let (segment, source) = (own.trunc(), own.addr());
                cause
                    .evidence(format!(
                        "the route of the segment of {by} itself, {segment} dev {by}, is not there"
                    ))
                    .mend(self.exec(name, &format!("ip route add {segment} dev {by} src {source}")))
            }
            _ => cause.evidence(format!("neither the kernel nor the plan of node {name} has one")),
        })
    }

    /// Answers to an address that the sender has and the plan does not give it, while it gives it others.
    fn foreign_source(&mut self, node: &Node) -> Result<Option<Cause>, F::Error> {
        if !self.flow.answers {
            return Ok(None);
        }
        let to = self.flow.destination;
        let sender = self.facts.node(&self.flow.to.clone())?;
        let of_family = |net: &IpNet| net.addr().is_ipv4() == to.is_ipv4();
        let given: Vec<&IpNet> =
            sender.planned.iter().flat_map(|i| &i.addresses).filter(|net| of_family(net)).collect();
        let foreign =
            sender.has(to) && !given.is_empty() && given.iter().all(|net| net.addr() != to);
        if !foreign || planned(node, to).is_some() {
            return Ok(None);
        }
        let name = &sender.name;
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        let text = format!("node {name} sends from {to}, to which node {} has no route", node.name);
        let cause = Cause::new(CauseName::WrongAddress, format!("node {name}"), text)
            .evidence(format!("the plan gives node {name} {}", given.join(", ")));
        let toward = planned(&sender, self.flow.source);
        let first = toward.as_ref().and_then(PlannedHop::first);
        Ok(Some(match (toward.as_ref().and_then(|hop| hop.to), first) {
            (Some(prefix), Some((Some(via), by))) => cause
                .mend(self.exec(name, &format!("ip route replace {prefix} via {via} dev {by}"))),
            _ => cause,
        }))
    }

    /// The node at the other end of a link, if it has ended: the interface went with its network.
    fn dead_peer(&mut self, node: &str, interface: &str) -> Result<Option<Cause>, F::Error> {
        let mut stations = self.facts.stations(node, interface, self.flow.destination)?;
        // A link between two nodes has one station.
        let Some(peer) = stations.pop().filter(|_| stations.is_empty()) else { return Ok(None) };
        if self.facts.crossed(node, interface, &peer)?.len() != 1 {
            return Ok(None);
        }
        let dead = self.facts.node(&peer.node)?.life == Life::Dead;
        Ok(dead.then(|| self.ended(&peer.node)))
    }

    /// With an address, routes over it went away, and do not come back with it.
    fn also_route(&self, cause: &mut Cause, name: &str, plan: Option<&PlannedHop>) {
        let Some(PlannedHop { to: Some(prefix), hops }) = plan else { return };
        let Some((via, by)) = hops.first() else { return };
        // A link brings back the routes over it with its carrier.
        let Some(mend) = cause.mend.take_if(|_| cause.name != CauseName::CableOut) else { return };
        let via = via.map_or_else(String::new, |via| format!(" via {via}"));
        let route = self.exec(name, &format!("ip route add {prefix}{via} dev {by}"));
        cause.mend = Some(format!("{mend} && {route}"));
    }
}

pub(crate) fn local(net: &IpNet) -> bool {
    matches!(net.addr(), IpAddr::V6(six) if six.is_unicast_link_local()) || net.addr().is_loopback()
}
