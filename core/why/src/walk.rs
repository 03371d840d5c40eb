//! The way of a flow over facts: every interface that it passes, and everything that stops it there.
//!
//! A node is passed in the kernel's order: rules of prerouting, the route with the reverse path filter, time to live, rules of
//! forward, output and postrouting, the neighbour, the link (`net/ipv4/ip_input.c`, `ip_forward.c`, `ip_output.c`). The walk goes
//! on after a stop where it can, by the plan where the kernel has no way, so that a second cause is found, too.
//! [`Stop::from`] and [`Stop::to`] say how many places a packet that is stopped here has passed at least and at most.

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, Life, Lookup, Node, Routed};
use crate::flow::{Flow, Place, Translation};
use crate::nft::Hook;

/// Most nodes on a way: each is asked, which takes time.
const MOST_NODES: usize = 256;

/// How much a stop stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Every packet of the flow.
    All,
    /// Some packets, or large ones only.
    Some,
    /// The answers of the neighbour whose hardware address is asked for.
    Resolution,
}

/// Something that stops the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The fewest places that a packet has passed when it is stopped here.
    pub from: usize,
    /// The most.
    pub to: usize,
    /// How much it stops.
    pub share: Share,
    /// What it is.
    pub cause: Cause,
}

/// Something that cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// As of [`Stop`].
    pub from: usize,
    /// As of [`Stop`].
    pub to: usize,
    /// What is missing.
    pub text: String,
}

/// Between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Whose hardware address is asked for.
    pub target: std::net::IpAddr,
    /// Its first place.
    pub from: usize,
    /// The place after its last.
    pub to: usize,
}

/// A way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// In order.
    pub places: Vec<Place>,
    /// In order.
    pub stops: Vec<Stop>,
    /// In order.
    pub doubts: Vec<Doubt>,
    /// What may hold a packet up where it stands, if nothing else does: rules, for each of which there is a doubt, too, and
    /// queues that have lost nothing.
    pub suspects: Vec<Stop>,
    /// The nodes that it passes.
    pub nodes: Vec<String>,
    /// The links that it crosses, each with its sending end and the number of places before it.
    pub links: Vec<(String, usize, usize)>,
    /// The number of places before the first node with several next hops of equal cost: packets may take another one.
    pub branch: Option<usize>,
    /// In order.
    pub segments: Vec<Segment>,
    /// Whether it leads to the receiver.
    pub arrives: bool,
    /// Where packets get other addresses or ports, in order.
    pub translations: Vec<Translation>,
    /// The last node with a rule that may have given packets other addresses or ports that are not known here.
    pub translated_by: Option<String>,
}

/// A route that differs from the plan's, or a translation to an address that nobody has.
#[derive(Clone, Debug)]
pub(crate) struct Deviation {
    pub(crate) name: CauseName,
    pub(crate) node: String,
    pub(crate) text: String,
    pub(crate) mend: String,
    /// What is wrong with the address through which the plan's route goes.
    pub(crate) address: Option<Cause>,
}

/// Where packets go from a node.
pub(crate) enum Decision {
    Arrived,
    Onward { interface: String, via: Option<std::net::IpAddr> },
    Nowhere,
}

/// From which stop of a way on a rule may have changed addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Translated {
    pub(crate) source: Option<usize>,
    pub(crate) destination: Option<usize>,
}

pub(crate) struct Walker<'a, F: Facts> {
    pub(crate) facts: &'a mut F,
    /// As packets are where the walk stands.
    pub(crate) flow: Flow,
    /// The way of the flow that this one answers, for connection tracking.
    pub(crate) there: Option<&'a Walk>,
    /// Whether the walk goes on with what a translation makes of packets.
    pub(crate) follows: bool,
    pub(crate) walk: Walk,
    pub(crate) deviation: Option<Deviation>,
    /// The sender's MTU.
    pub(crate) mtu: Option<u32>,
    hops_left: Option<u32>,
    /// The next hop, where the route has a gateway.
    pub(crate) via: Option<std::net::IpAddr>,
    /// Whether a rule may have given packets another destination that is not known: then its listeners and settings are not those that count.
    pub(crate) redirected: bool,
    pub(crate) translated: Translated,
    /// A frame of the flow as it is on the link, with its VLAN tags; `None` where a switch drops it.
    pub(crate) frame: Option<Vec<u8>>,
}

/// Leads a flow from its sender to its receiver, with the addresses that translations on the way give it. `there` is the way of
/// the flow that it answers.
///
/// # Errors
/// What `facts` cannot answer.
pub fn walk<F: Facts>(facts: &mut F, flow: &Flow, there: Option<&Walk>) -> Result<Walk, F::Error> {
    Walker::new(facts, flow, there, true).walked()
}

/// The same for packets that are known by their addresses alone: behind a translation everything is uncertain.
///
/// # Errors
/// What `facts` cannot answer.
pub fn walk_by_addresses<F: Facts>(
    facts: &mut F,
    flow: &Flow,
    there: Option<&Walk>,
) -> Result<Walk, F::Error> {
    Walker::new(facts, flow, there, false).walked()
}

impl<'a, F: Facts> Walker<'a, F> {
    fn new(facts: &'a mut F, flow: &Flow, there: Option<&'a Walk>, follows: bool) -> Walker<'a, F> {
        Walker {
            facts,
            flow: flow.clone(),
            there,
            follows,
            walk: Walk::default(),
            deviation: None,
            mtu: None,
            hops_left: None,
            via: None,
            redirected: false,
            translated: Translated::default(),
            frame: None,
        }
    }

    fn walked(mut self) -> Result<Walk, F::Error> {
        self.run()?;
        let Walker { mut walk, translated, .. } = self;
        walk.doubt_behind(translated);
        Ok(walk)
    }
}

impl<F: Facts> Walker<'_, F> {
    fn run(&mut self) -> Result<(), F::Error> {
        let mut at = self.flow.from.clone();
        let mut came: Option<String> = None;
        // Nobody answers where nobody is (`Walker::away`).
        if at.is_empty() {
            return Ok(());
        }
        while self.walk.nodes.len() < MOST_NODES {
            if self.walk.nodes.contains(&at) {
                self.circle(&at);
                return Ok(());
            }
            self.walk.nodes.push(at.clone());
            let node = self.facts.node(&at)?;
            if node.life == Life::Dead {
                self.dead(&at);
                return Ok(());
            }
            self.look(&node);
            if came.is_none() {
                self.resolvers(&node)?;
            }
            self.tracking(&node);
            if let Some(came) = &came {
                self.budget(&node);
                self.enslaved(&node, came);
                self.device(&node, came, false)?;
                self.answered_source(&node);
                self.hook(&node, Hook::Prerouting, Some(came), None)?;
            }
            let Some(mut interface) = self.routed(&node, came.as_deref())? else { return Ok(()) };
            if came.is_none() {
                let before = self.flow.destination;
                self.sent(&node, &interface)?;
                if self.flow.destination != before {
                    // The kernel looks up the way again (`ip_route_me_harder`).
                    let Some(other) = self.routed(&node, None)? else { return Ok(()) };
                    interface = other;
                }
            }
            self.pass(&node, came.as_deref(), &interface)?;
            let via = self.via;
            let Some((next, by)) = self.cross(&node, &interface, via)? else { return Ok(()) };
            (at, came) = (next, Some(by));
        }
        let here = self.walk.places.len();
        let text = format!("the way has passed {MOST_NODES} nodes, and is not followed further");
        self.doubt(here, usize::MAX, text);
        Ok(())
    }

    /// The interface by which packets leave a node, unless the way ends there.
    fn routed(&mut self, node: &Node, came: Option<&str>) -> Result<Option<String>, F::Error> {
        match self.decide(node, came)? {
            Decision::Arrived => {
                self.deliver(node, came)?;
                self.walk.arrives = true;
                Ok(None)
            }
            Decision::Nowhere => Ok(None),
            Decision::Onward { interface, via } => {
                self.via = via;
                Ok(Some(interface))
            }
        }
    }

    /// What a node's own packet meets once it has a route.
    fn sent(&mut self, node: &Node, interface: &str) -> Result<(), F::Error> {
        // IPv6 has another setting, which routers advertise.
        self.hops_left = node.ttl.filter(|_| self.flow.destination.is_ipv4());
        self.hook(node, Hook::Output, None, Some(interface))
    }

    /// What a packet meets between the route and the link.
    fn pass(&mut self, node: &Node, came: Option<&str>, interface: &str) -> Result<(), F::Error> {
        if came.is_some() {
            self.spend(node);
            self.hook(node, Hook::Forward, came, Some(interface))?;
        }
        // The kernel tells by which interface a forwarded packet came here, too (`ip_output`).
        self.hook(node, Hook::Postrouting, came, Some(interface))?;
        self.answered_destination(node);
        self.device(node, interface, true)
    }

    /// RFC 791 section 3.2: each router takes one, and forwards nothing that has none left.
    fn spend(&mut self, node: &Node) {
        let Some(left) = self.hops_left else { return };
        self.hops_left = Some(left.saturating_sub(1));
        if left == 1 {
            let (name, from) = (&node.name, &self.flow.from);
            let cause = Cause::new(
                CauseName::TtlEnded,
                format!("node {name}"),
                format!("the time to live of packets of {from} ends at {name}"),
            );
            let cause = cause
                .evidence(format!("net.ipv4.ip_default_ttl of {from} is too small for this way"))
                .mend(self.exec(from, "sysctl -w net.ipv4.ip_default_ttl=64"));
            self.stop(cause);
        }
    }

    fn circle(&mut self, at: &str) {
        // What is stopped in the circle does not come round.
        if self.walk.stops.iter().any(|stop| stop.share == Share::All) {
            return;
        }
        let begin = self.walk.nodes.iter().position(|node| node == at).unwrap_or(0);
        let nodes = self.walk.nodes[begin..].join(" -> ");
        let cause = Cause::new(
            CauseName::RoutingLoop,
            format!("node {at}"),
            format!("routes to {} lead in a circle", self.flow.destination),
        );
        let stop = Stop {
            from: self.walk.places.len(),
            to: usize::MAX,
            share: Share::All,
            cause: cause.evidence(format!("{nodes} -> {at}")),
        };
        self.add(stop);
    }

    fn dead(&mut self, at: &str) {
        let cause = self.ended(at);
        let to = self.walk.places.len();
        // Without a node there is no carrier either: where packets end is the last port before it, or the sender itself.
        self.add(Stop { from: to.saturating_sub(2), to, share: Share::All, cause });
    }

    pub(crate) fn ended(&self, at: &str) -> Cause {
        let text = format!("node {at} does not run: its init has ended");
        Cause::new(CauseName::NodeDead, format!("node {at}"), text)
            .evidence(format!("no process of node {at} lives that could hold its network"))
            .mend(format!("netloom -l {} up FILE", self.facts.lab()))
    }

    /// What of a node is not known, noted once.
    fn look(&mut self, node: &Node) {
        let at = self.walk.places.len();
        let name = &node.name;
        if node.life == Life::Guest {
            self.doubt(
                at,
                at + 1,
                format!(
                    "node {name} is a virtual machine, whose kernel cannot be asked from outside"
                ),
            );
            return;
        }
        if node.rules.is_none() {
            self.doubt(at, at, format!("the nftables rules of node {name} cannot be read"));
        }
        if !node.old_tables.is_empty() {
            let tables = node.old_tables.join(", ");
            self.doubt(
                at,
                at,
                format!(
                    "node {name} has rules of iptables-legacy (tables {tables}), which are not read"
                ),
            );
        }
    }

    /// What comes to a protected node beyond its budget is dropped before the node has it.
    fn budget(&mut self, node: &Node) {
        let Some((dropped, budget)) = node.budget.as_ref().filter(|(dropped, _)| *dropped > 0)
        else {
            return;
        };
        let (name, at) = (&node.name, self.walk.places.len());
        let text = format!("the protection of node {name} drops what is beyond its budget");
        let cause = Cause::new(CauseName::ProtectBudget, format!("node {name}"), text)
            .evidence(format!("it has dropped {dropped} packets; the budget is {budget}"))
            .mend(format!("netloom -l {} node set {name} protect=none", self.facts.lab()));
        self.add(Stop { from: at.saturating_sub(1), to: at, share: Share::Some, cause });
    }

    /// A new connection that finds no room is dropped (`__nf_conntrack_alloc`).
    fn tracking(&mut self, node: &Node) {
        let Some((count, most)) = node.tracked.filter(|(count, most)| *most > 0 && count >= most)
        else {
            return;
        };
        if self.flow.answers {
            return;
        }
        let name = &node.name;
        let text = format!("node {name} tracks as many connections as it may, and drops new ones");
        let cause = Cause::new(CauseName::ConntrackFull, format!("node {name}"), text);
        self.stop(cause.evidence(format!(
            "nf_conntrack_count of node {name} is {count}, and nf_conntrack_max {most}"
        )));
    }

    /// What comes in by a port of a bridge is the bridge's (`br_handle_frame`).
    fn enslaved(&mut self, node: &Node, came: &str) {
        if let Some(cause) = self.port_of_bridge(node, came) {
            self.stop(cause);
        }
    }

    pub(crate) fn port_of_bridge(&self, node: &Node, interface: &str) -> Option<Cause> {
        let bridge = node.interface(interface)?.bridge.clone()?;
        let name = &node.name;
        let cause = Cause::new(
            CauseName::InterfaceEnslaved,
            format!("node {name}"),
            format!("{name}:{interface} is a port of bridge {bridge}, which takes what comes in"),
        );
        let found =
            format!("{name}:{interface} has {bridge} as its master, and keeps its addresses");
        Some(
            cause
                .evidence(found)
                .mend(self.exec(name, &format!("ip link set {interface} nomaster"))),
        )
    }

    /// Adds a stop where the walk stands.
    pub(crate) fn stop(&mut self, cause: Cause) {
        let at = self.walk.places.len();
        self.add(Stop { from: at, to: at, share: Share::All, cause });
    }

    pub(crate) fn add(&mut self, mut stop: Stop) {
        let of_next_hop = [
            CauseName::ForwardingOff,
            CauseName::NoRoute,
            CauseName::NeighbourUnknown,
            CauseName::ReversePathFilter,
            CauseName::RoutingLoop,
            CauseName::WrongGateway,
        ];
        if of_next_hop.contains(&stop.cause.name)
            && let Some(other) = self.deviation.take()
        {
            let mut evidence = vec![other.text.clone(), stop.cause.text.clone()];
            evidence.append(&mut stop.cause.evidence);
            let name = &other.node;
            let deviant = || {
                let text = match other.name {
                    CauseName::TranslatedAway => format!(
                        "a rule of node {name} gives packets a destination that no node has"
                    ),
                    _ => format!("node {name} hands packets to the wrong next hop"),
                };
                Cause::new(other.name, format!("node {name}"), text).mend(other.mend)
            };
            stop.cause = other.address.unwrap_or_else(deviant);
            stop.cause.evidence.append(&mut evidence);
        }
        self.walk.stops.push(stop);
    }

    pub(crate) fn doubt(&mut self, from: usize, to: usize, text: String) {
        self.walk.doubts.push(Doubt { from, to, text });
    }

    /// A command in a node.
    pub(crate) fn exec(&self, node: &str, command: &str) -> String {
        format!("netloom -l {} exec {node} -- {command}", self.facts.lab())
    }

    pub(crate) fn carries(&self) -> Option<(u8, [u16; 2])> {
        let number = self.flow.protocol.number(self.flow.destination.is_ipv4());
        Some((number, self.flow.ports))
    }

    /// A look-up for this flow's packets as they come to a node.
    pub(crate) fn lookup(&mut self, node: &str, came: Option<&str>) -> Result<Routed, F::Error> {
        let came = came.map(|interface| (self.flow.source, interface));
        self.facts.route(node, &Lookup { to: self.flow.destination, came, carries: self.carries() })
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
