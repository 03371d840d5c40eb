//! Where a node sends packets, and why it does not.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cause::{Cause, CauseName};
use crate::facts::{
    Discarding, Facts, Life, Lookup, Matched, Node, PlannedInterface, Refusal, Routed,
};
use crate::walk::{Decision, Deviation, Walker};

/// `RT_TABLE_MAIN` of `linux/rtnetlink.h`.
const MAIN: u32 = 254;

/// A next hop of the plan.
#[derive(Clone, Debug)]
pub(crate) struct PlannedHop {
    /// The route's destination; `None` for the interface's own segment.
    pub(crate) to: Option<IpNet>,
    pub(crate) hops: Vec<(Option<IpAddr>, String)>,
}

impl PlannedHop {
    pub(crate) fn first(&self) -> Option<&(Option<IpAddr>, String)> {
        self.hops.first()
    }
}

/// The plan's next hop for an address: of equally long prefixes the segment counts.
pub(crate) fn planned(node: &Node, to: IpAddr) -> Option<PlannedHop> {
    let segment = |i: &PlannedInterface| {
        let net =
            i.addresses.iter().filter(|net| net.contains(&to)).max_by_key(|n| n.prefix_len())?;
        Some((net.prefix_len(), PlannedHop { to: None, hops: vec![(None, i.name.clone())] }))
    };
    let route = |r: &crate::facts::PlannedRoute| {
        let hop = PlannedHop { to: Some(r.to), hops: r.hops.clone() };
        r.to.contains(&to).then_some((r.to.prefix_len(), hop))
    };
    let all = node.planned_routes.iter().filter_map(route);
    let all = all.chain(node.planned.iter().filter_map(segment));
    all.max_by_key(|(length, _)| *length).map(|(_, hop)| hop)
}

impl<F: Facts> Walker<'_, F> {
    pub(crate) fn decide(&mut self, node: &Node, came: Option<&str>) -> Result<Decision, F::Error> {
        let is_receiver = node.name == self.flow.to;
        match self.lookup(&node.name, came)? {
            // What has an address that no node should have is told by its listeners.
            Routed::Here if is_receiver || self.flow.to.is_empty() => Ok(Decision::Arrived),
            Routed::Here => {
                self.taken(node)?;
                Ok(Decision::Nowhere)
            }
            _ if is_receiver && !node.has(self.flow.destination) => {
                self.lost_address(node);
                Ok(Decision::Nowhere)
            }
            Routed::Leaves { interface, via, .. } => {
                self.note_deviation(node, came, &interface, via)?;
                self.marked(node);
                self.forwards6(node, came);
                Ok(Decision::Onward { interface, via })
            }
            Routed::Refused(refusal) => {
                self.refused(node, came, refusal)?;
                // It is where it was to come: what else is wrong there is worth knowing, too.
                if is_receiver {
                    return Ok(Decision::Arrived);
                }
                // By the plan, so that what stands behind this stop is found, too.
                let next = planned(node, self.flow.destination);
                let first = next.as_ref().and_then(PlannedHop::first).cloned();
                let there = first.filter(|(_, name)| node.interface(name).is_some_and(|i| i.up));
                Ok(there.map_or(Decision::Nowhere, |(via, interface)| Decision::Onward {
                    interface,
                    via,
                }))
            }
        }
    }

    /// Another node has the receiver's address.
    fn taken(&mut self, node: &Node) -> Result<(), F::Error> {
        let (to, name) = (self.flow.destination, &node.name);
        let text = format!("node {name} has {to}, which is to be the address of {}", self.flow.to);
        let interface = node.interfaces.iter().find(|i| i.addresses.iter().any(|n| n.addr() == to));
        let mut cause = Cause::new(CauseName::WrongAddress, format!("node {name}"), text);
        if let Some(interface) = interface {
            let net = interface.addresses.iter().find(|n| n.addr() == to).copied();
            let net = net.map_or_else(String::new, |net| net.to_string());
            cause = cause
                .evidence(format!("{name}:{} has {net}", interface.name))
                .mend(self.exec(name, &format!("ip addr del {net} dev {}", interface.name)));
        }
        if interface.is_none() {
            cause.text = format!(
                "node {name} takes packets for {to}, an address of {}, as its own",
                self.flow.to
            );
            let own = Lookup { to, came: None, carries: self.carries() };
            if let Some(Matched { to: prefix, table }) = self.facts.matched(name, &own)? {
                let table = table_name(table);
                cause = cause
                    .evidence(format!("local {prefix} in table {table} of node {name}"))
                    .mend(self.exec(name, &format!("ip route del local {prefix} table {table}")));
            }
        }
        self.stop(cause);
        Ok(())
    }

    /// The receiver lacks the address.
    fn lost_address(&mut self, node: &Node) {
        let to = self.flow.destination;
        match node.planned_for(to) {
            Some(planned) => {
                let cause = self.lacks_address(node, planned, to);
                self.stop(cause);
            }
            None => {
                let text = format!("node {} has not the address {to}", node.name);
                self.stop(Cause::new(
                    CauseName::AddressMissing,
                    format!("node {}", node.name),
                    text,
                ));
            }
        }
    }

    pub(crate) fn down(&self, node: &Node, interface: &str) -> Cause {
        let name = &node.name;
        let planned = node.planned_interface(interface);
        if let Some(planned) = planned.filter(|planned| planned.unplugged) {
            return self.unplugged(&planned.link);
        }
        Cause::new(
            CauseName::InterfaceDown,
            format!("node {name}"),
            format!("interface {name}:{interface} is set down"),
        )
        .evidence(format!("{name}:{interface} lacks the flag UP"))
        .mend(self.exec(name, &format!("ip link set {interface} up")))
    }

    /// Notes a route that differs from the plan's. It is a cause only if packets do not go on from there.
    fn note_deviation(
        &mut self,
        node: &Node,
        came: Option<&str>,
        interface: &str,
        via: Option<IpAddr>,
    ) -> Result<(), F::Error> {
        let to = self.flow.destination;
        let Some(plan) = planned(node, to) else { return Ok(()) };
        let same = plan.hops.iter().any(|(planned, name)| *planned == via && name == interface);
        if same && plan.hops.len() > 1 && self.walk.branch.is_none() {
            let (here, name, count) = (self.walk.places.len(), &node.name, plan.hops.len());
            self.walk.branch = Some(here);
            self.doubt(here, here, format!(
                "node {name} has {count} next hops of equal cost to {to}, and the probe may take another one than {interface}"
            ));
        }
        let Some((first, by)) = plan.first().filter(|_| !same) else { return Ok(()) };
        let hop = |via: Option<IpAddr>, by: &str| match via {
            Some(via) => format!("{via} by {by}"),
            None => format!("the segment of {by} itself"),
        };
        let name = &node.name;
        let text = format!(
            "node {name} sends packets for {to} to {}; its plan says {}",
            hop(via, interface),
            hop(*first, by)
        );
        let came = came.map(|interface| (self.flow.source, interface));
        let lookup = Lookup { to, came, carries: self.carries() };
        let matched = self.facts.matched(name, &lookup)?;
        // A route that stands before the plan's own hides it.
        let hides =
            |found: &Matched| found.table != MAIN || plan.to.is_none_or(|to| to != found.to);
        let (mend, found) = match (matched.filter(hides), plan.to, first) {
            (Some(Matched { to, table }), ..) => {
                let table = table_name(table);
                (
                    format!("ip route del {to} table {table}"),
                    Some(format!("its route {to} of table {table} comes before the plan's")),
                )
            }
            (None, Some(prefix), Some(via)) => {
                (format!("ip route replace {prefix} via {via} dev {by}"), None)
            }
            (None, Some(prefix), None) => (format!("ip route replace {prefix} dev {by}"), None),
            (None, None, _) => (format!("ip route replace {to} dev {by}"), None),
        };
        let text = found.map_or(text.clone(), |found| format!("{text}; {found}"));
        let mend = self.exec(name, &mend);
        let address = self.unreachable_hop(node, &plan, to);
        let (name, node) = (CauseName::WrongGateway, node.name.clone());
        self.deviation.get_or_insert(Deviation { name, node, text, mend, address });
        Ok(())
    }

    /// The address of the plan's interface, where it is not as the plan has it: without it the kernel refuses the plan's next hop.
    fn unreachable_hop(&self, node: &Node, plan: &PlannedHop, to: IpAddr) -> Option<Cause> {
        let (via, by) = plan.first()?;
        let planned = node.planned_interface(by)?;
        let net = planned.addresses.iter().find(|net| net.contains(&via.unwrap_or(to)))?;
        let found = node.interface(by).filter(|found| found.up)?;
        if found.addresses.contains(net) {
            return None;
        }
        let mut cause = self.lacks_address(node, planned, net.addr());
        if let (Some(prefix), Some(via)) = (plan.to, via) {
            // The route that is there would keep the plan's away.
            let route = format!("ip route replace {prefix} via {via} dev {by}");
            let route = self.exec(&node.name, &route);
            cause.mend = cause.mend.map(|mend| format!("{mend} && {route}"));
        }
        Some(cause)
    }

    /// Rules that depend on a mark: a look-up has none.
    fn marked(&mut self, node: &Node) {
        let (at, name) = (self.walk.places.len(), &node.name);
        for rule in &node.marked_rules {
            let text = format!(
                "whether rule of routing `{rule}` of node {name} takes the packet depends on its mark, which is not known"
            );
            self.doubt(at, at, text);
        }
    }

    /// `ip6_forward` of `net/ipv6/ip6_output.c` asks the setting of the whole namespace; a look-up does not.
    fn forwards6(&mut self, node: &Node, came: Option<&str>) {
        let six = self.flow.destination.is_ipv6();
        if six && came.is_some() && node.life == Life::Up && !node.forwards6 {
            let cause = self.not_forwarding(node, "net.ipv6.conf.all.forwarding");
            self.stop(cause);
        }
    }

    fn not_forwarding(&self, node: &Node, setting: &str) -> Cause {
        let name = &node.name;
        Cause::new(
            CauseName::ForwardingOff,
            format!("node {name}"),
            format!("node {name} does not forward packets"),
        )
        .evidence(format!("{setting} of node {name} is 0"))
        .mend(self.exec(name, &format!("sysctl -w {setting}=1")))
    }

    /// The setting of IPv4 that keeps a node from forwarding what comes by an interface: that of all sets those of each.
    fn four_setting(node: &Node, came: &str) -> String {
        let others = node.interfaces.iter().any(|i| i.name != "lo" && i.name != came && i.forwards);
        match others {
            true => format!("net.ipv4.conf.{}.forwarding", came.replace('.', "/")),
            false => "net.ipv4.ip_forward".to_owned(),
        }
    }

    fn refused(
        &mut self,
        node: &Node,
        came: Option<&str>,
        refusal: Refusal,
    ) -> Result<(), F::Error> {
        let Some(interface) = came else { return self.own_refusal(node, None, refusal) };
        let own = Lookup { to: self.flow.destination, came: None, carries: self.carries() };
        match self.facts.route(&node.name, &own)? {
            Routed::Refused(own) => {
                self.own_refusal(node, came, own)?;
                // What is for the node itself need not be forwarded.
                if node.name != self.flow.to {
                    self.off(node, interface);
                }
                Ok(())
            }
            found => self.refused_input(node, interface, found == Routed::Here, refusal),
        }
    }

    /// Forwarding of IPv4 by the interface at which packets come in (`ip_route_input_slow`).
    fn off(&mut self, node: &Node, came: &str) -> bool {
        let of_four = self.flow.destination.is_ipv4();
        let off = node.interface(came).is_some_and(|i| of_four && !i.forwards);
        if off {
            let cause = self.not_forwarding(node, &Self::four_setting(node, came));
            self.stop(cause);
        }
        off
    }

    /// The node has a way, and refuses what comes by this interface.
    fn refused_input(
        &mut self,
        node: &Node,
        came: &str,
        here: bool,
        refusal: Refusal,
    ) -> Result<(), F::Error> {
        let name = node.name.clone();
        let source = self.flow.source;
        if !here && self.off(node, came) {
            return Ok(());
        }
        if node.has(source) {
            let text = format!("node {name} has {source} itself, the source of these packets");
            let cause = Cause::new(CauseName::MartianSource, format!("node {name}"), text);
            self.stop(cause.evidence("the kernel drops what comes in from an address of its own"));
            return Ok(());
        }
        let back = self.facts.route(&name, &Lookup { to: source, came: None, carries: None })?;
        // IPv6 has none.
        let filter = node.interface(came).filter(|_| source.is_ipv4()).map_or(0, |i| i.rp_filter);
        // RFC 3704 section 2; ip-sysctl.rst: 1 wants the way back by this interface, 2 any.
        let by = match &back {
            Routed::Leaves { interface, .. } => Some(interface.clone()),
            _ => None,
        };
        let refused = match filter {
            1 => by.as_deref() != Some(came),
            2 => by.is_none(),
            _ => false,
        };
        if !refused && let Some(cause) = self.by_policy(node, Some(came), refusal)? {
            self.stop(cause);
            return Ok(());
        }
        if !refused {
            let at = self.walk.places.len();
            self.doubt(at, at, format!(
                "node {name} has a way to {}, and its kernel refuses packets of {source} that come by {came} without a reason",
                self.flow.destination
            ));
            return Ok(());
        }
        let way = by.map_or_else(
            || format!("node {name} has no route to {source}"),
            |by| format!("node {name} sends to {source} by {by}"),
        );
        let cause = Cause::new(
            CauseName::ReversePathFilter,
            format!("node {name}"),
            format!(
                "the reverse path filter of node {name} refuses packets of {source} that come by {came}"
            ),
        );
        let cause = cause.evidence(format!("rp_filter of {name}:{came} is {filter}; {way}")).mend(
            self.exec(
                &name,
                &format!(
                    "sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.{}.rp_filter=0",
                    came.replace('.', "/")
                ),
            ),
        );
        self.stop(cause);
        Ok(())
    }

    /// The node has no way by itself.
    fn own_refusal(
        &mut self,
        node: &Node,
        came: Option<&str>,
        refusal: Refusal,
    ) -> Result<(), F::Error> {
        let to = self.flow.destination;
        if refusal == Refusal::NoRoute
            && let Some(found) = self.by_policy(node, came, refusal)?
        {
            self.stop(found);
            return Ok(());
        }
        let (cause, kind) = match refusal {
            // A node's own packets meet no reverse path filter.
            Refusal::NoRoute | Refusal::ReversePath => {
                let learnt = self.not_learnt(node)?;
                if !learnt.is_empty() {
                    learnt.into_iter().for_each(|cause| self.stop(cause));
                    return Ok(());
                }
                let cause = self.without_route(node)?;
                self.stop(cause);
                return Ok(());
            }
            Refusal::Invalid => (CauseName::BlackholeRoute, "blackhole"),
            Refusal::Unreachable => (CauseName::UnreachableRoute, "unreachable"),
            Refusal::Prohibited => (CauseName::ProhibitRoute, "prohibit"),
        };
        let all = self.facts.discarding(&node.name, to)?;
        let fitting = all.iter().filter(|r| r.kind == kind && r.to.contains(&to));
        if fitting.clone().next().is_none()
            && let Some(found) = self.by_policy(node, came, refusal)?
        {
            self.stop(found);
            return Ok(());
        }
        let best = fitting.max_by_key(|r| r.to.prefix_len());
        let name = &node.name;
        let text = format!("a {kind} route of node {name} discards packets for {to}");
        let mut found = Cause::new(cause, format!("node {name}"), text);
        if let Some(Discarding { to, table, origin, .. }) = best {
            let shown = table_name(*table);
            found = found
                .evidence(format!(
                    "{kind} {to} in table {shown} of node {name}, from {}",
                    origin_name(*origin)
                ))
                .mend(self.exec(name, &format!("ip route del {kind} {to} table {shown}")));
        }
        self.stop(found);
        Ok(())
    }
}

pub(crate) fn table_name(table: u32) -> String {
    match table {
        254 => "main".into(),
        255 => "local".into(),
        253 => "default".into(),
        other => other.to_string(),
    }
}

/// `RTPROT_*` of `linux/rtnetlink.h`.
fn origin_name(origin: u8) -> String {
    match origin {
        2 => "the kernel".into(),
        3 => "a command (RTPROT_BOOT)".into(),
        4 => "a static configuration".into(),
        11 => "zebra".into(),
        16 => "a DHCP client".into(),
        186 => "BGP".into(),
        187 => "IS-IS".into(),
        188 => "OSPF".into(),
        189 => "RIP".into(),
        other => format!("origin {other}"),
    }
}
