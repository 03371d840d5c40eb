//! Why a node that learns its routes has none: daemons that ended, links on which one end does not speak OSPF, sessions of BGP.
//!
//! A lab has one cause more often than it has several, and each of these makes the next: without OSPF a session has no way, without
//! a daemon there is neither. So the first kind that is found is told alone.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use crate::cause::{Cause, CauseName};
use crate::facts::{Daemons, Facts, Life, Node, OspfInterface, Session, Station};
use crate::flow::{Flow, Protocol};
use crate::nft::Hook;
use crate::nft::evaluate::{self, Fate, Packet};
use crate::routes::planned;
use crate::walk::{Share, Walker, walk};

/// RFC 4271 section 8: the port of BGP.
const BGP: u16 = 179;
/// A port of the end that opens a session.
const ANY_PORT: u16 = 49_152;
/// RFC 2328 section 4.3: the protocol, and the address of all routers.
const OSPF: u8 = 89;
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 5);

type All = Rc<Vec<(String, Daemons)>>;

impl<F: Facts> Walker<'_, F> {
    /// Causes for which a node has not learnt a route; none where its routes are the plan's.
    pub(crate) fn not_learnt(&mut self, node: &Node) -> Result<Vec<Cause>, F::Error> {
        // A session's own way is asked for below.
        let of_session = self.flow.protocol == Protocol::Tcp && self.flow.ports.contains(&BGP);
        if of_session || planned(node, self.flow.destination).is_some() {
            return Ok(vec![]);
        }
        let all = self.facts.daemons()?;
        if all.iter().all(|(name, _)| *name != node.name) {
            return Ok(vec![]);
        }
        let mut found = self.ended_daemons(&all);
        if found.is_empty() {
            found = self.severed(&all)?;
        }
        if found.is_empty() {
            found = self.without_adjacency(&all)?;
        }
        if found.is_empty() {
            found = self.without_session(&all)?;
        }
        if found.is_empty() {
            found = self.withheld(&all)?;
        }
        let missing =
            format!("so node {} has not learnt a route to {}", node.name, self.flow.destination);
        found.iter_mut().for_each(|cause| cause.evidence.push(missing.clone()));
        Ok(found)
    }

    fn ended_daemons(&self, all: &All) -> Vec<Cause> {
        let each =
            all.iter().flat_map(|(name, daemons)| daemons.ended.iter().map(move |d| (name, d)));
        let cause = |(name, daemon): (&String, &String)| {
            let text = format!("{daemon} of node {name} has ended");
            Cause::new(CauseName::DaemonEnded, format!("node {name}"), text).evidence(format!(
                "nobody listens at {daemon}.vty of node {name}, the socket that {daemon} left"
            ))
        };
        each.map(cause).collect()
    }

    /// Links between routers of OSPF that are down, where no other way joins their ends. A daemon does not speak on an interface that is
    /// down or has no carrier, and says nothing of it.
    fn severed(&mut self, all: &All) -> Result<Vec<Cause>, F::Error> {
        let parts = self.parts(all)?;
        let mut found: Vec<Cause> = Vec::new();
        for (name, daemons) in all.iter().filter(|(_, daemons)| daemons.ospf) {
            let node = self.facts.node(name)?;
            let silent = |i: &&crate::facts::PlannedInterface| {
                daemons.speaks.iter().all(|own| own.name != i.name)
            };
            for planned in node.planned.iter().filter(silent).filter(|_| node.life == Life::Up) {
                let own = &planned.name;
                for station in self.facts.stations(name, own, IpAddr::V4(ALL_ROUTERS))? {
                    let speaks = all.iter().any(|(n, d)| *n == station.node && d.ospf);
                    if !speaks || parts.joined(name, &station.node) {
                        continue;
                    }
                    let cause = match node.interface(own) {
                        Some(found) if !found.up => Some(self.down(&node, own)),
                        _ => self.cut(name, own, &station)?,
                    };
                    found.extend(cause.filter(|cause| !found.iter().any(|f| f.text == cause.text)));
                }
            }
        }
        Ok(found)
    }

    /// Which nodes adjacencies join.
    fn parts(&mut self, all: &All) -> Result<Parts, F::Error> {
        let mut parts = Parts::default();
        for (name, daemons) in all.iter() {
            for own in daemons.speaks.iter().filter(|own| !own.states.is_empty()) {
                if !own.states.iter().all(|state| settled(state)) {
                    continue;
                }
                for station in self.facts.stations(name, &own.name, IpAddr::V4(ALL_ROUTERS))? {
                    if all.iter().any(|(n, d)| *n == station.node && d.ospf) {
                        parts.join(name, &station.node);
                    }
                }
            }
        }
        Ok(parts)
    }

    fn without_adjacency(&mut self, all: &All) -> Result<Vec<Cause>, F::Error> {
        let mut found: Vec<Cause> = Vec::new();
        for (name, daemons) in all.iter() {
            for own in daemons.speaks.iter().filter(|own| !own.passive) {
                let cause = self.unspoken(all, name, own)?;
                found.extend(cause.filter(|cause| !found.iter().any(|f| f.text == cause.text)));
            }
        }
        Ok(found)
    }

    /// Why OSPF has no adjacency at an interface.
    fn unspoken(
        &mut self,
        all: &All,
        name: &str,
        own: &OspfInterface,
    ) -> Result<Option<Cause>, F::Error> {
        let (interface, states) = (own.name.as_str(), &own.states);
        let node = self.facts.node(name)?;
        for station in self.facts.stations(name, interface, IpAddr::V4(ALL_ROUTERS))? {
            let Some((other, daemons)) = all.iter().find(|(n, d)| *n == station.node && d.ospf)
            else {
                continue;
            };
            let peer = self.facts.node(other)?;
            if peer.life != Life::Up {
                continue;
            }
            let far = format!("{other}:{}", station.interface);
            let speaks = daemons.speaks.iter().find(|i| i.name == station.interface);
            let Some(speaks) = speaks.filter(|speaks| !speaks.passive) else {
                return Ok(Some(self.silent_ospf(name, &station, speaks.is_some())));
            };
            // One that hears nothing any more stays as it was until its dead interval is over.
            if !states.is_empty() && states.iter().all(|state| settled(state)) {
                continue;
            }
            let ends = [(&*node, interface), (&*peer, station.interface.as_str())];
            if let Some(cause) = self.filtered(ends).or_else(|| self.filtered([ends[1], ends[0]])) {
                return Ok(Some(cause));
            }
            if let Some(cause) = self.cut(name, interface, &station)? {
                return Ok(Some(cause));
            }
            let mut both = [format!("{name}:{interface}"), far];
            both.sort();
            let text = format!("{} and {} speak OSPF, and are not adjacent", both[0], both[1]);
            let said =
                if states.is_empty() { "no neighbour".to_owned() } else { states.join(", ") };
            let mut cause = Cause::new(CauseName::OspfAdjacency, format!("node {name}"), text)
                .evidence(format!("{name}:{interface} has {said}"));
            let (found, mend) = self.differing(ends, [&own.settings, &speaks.settings]);
            cause.evidence.extend(found);
            cause.mend = mend;
            return Ok(Some(cause));
        }
        Ok(None)
    }

    fn silent_ospf(&self, name: &str, station: &Station, passive: bool) -> Cause {
        let Station { node: other, interface } = station;
        let text = format!(
            "node {other} does not speak OSPF on {interface}, and {name} does at the other end"
        );
        let cause = Cause::new(CauseName::OspfSilent, format!("node {other}"), text);
        if !passive {
            return cause.evidence(format!(
                "ospfd of node {other} runs, and its interfaces do not have {interface}"
            ));
        }
        cause.evidence(format!("OSPF is passive on {other}:{interface}")).mend(self.ospf(
            other,
            interface,
            "no ip ospf passive",
        ))
    }

    /// A line of FRR's configuration of an interface.
    fn ospf(&self, node: &str, interface: &str, line: &str) -> String {
        let interface = format!("interface {interface}");
        self.exec(
            node,
            &format!("vtysh -d ospfd -c 'configure terminal' -c '{interface}' -c '{line}'"),
        )
    }

    /// In what two ends differ that must have it in common, and how the first becomes like the second, where it is one thing.
    fn differing(
        &self,
        ends: [(&Node, &str); 2],
        settings: [&BTreeMap<&'static str, String>; 2],
    ) -> (Vec<String>, Option<String>) {
        let (mut found, mut mends) = (vec![], vec![]);
        let (node, interface) = ends[0];
        for (what, own) in settings[0] {
            let Some(far) = settings[1].get(what).filter(|far| *far != own) else { continue };
            found.push(format!("the {what} is {own} at the one, and {far} at the other"));
            mends.push(match *what {
                "hello interval" | "dead interval" => {
                    let line = format!("ip ospf {} {far}", what.replace(' ', "-"));
                    Some(self.ospf(&node.name, interface, &line))
                }
                _ => None,
            });
        }
        let mtus = ends.map(|(n, i)| n.interface(i).map_or(0, |found| found.mtu));
        if mtus[0] != mtus[1] {
            found.push(format!("their MTUs are {} and {}", mtus[0], mtus[1]));
            let (small, interface) = if mtus[0] < mtus[1] { ends[0] } else { ends[1] };
            let line = format!("ip link set {interface} mtu {}", mtus[0].max(mtus[1]));
            mends.push(Some(self.exec(&small.name, &line)));
        }
        let only = if let [only] = mends.as_slice() { only.clone() } else { None };
        (found, only)
    }

    /// A link between both that passes nothing, one way or the other: OSPF needs both (RFC 2328 section 10.1).
    fn cut(
        &mut self,
        name: &str,
        interface: &str,
        station: &Station,
    ) -> Result<Option<Cause>, F::Error> {
        for crossing in self.facts.crossed(name, interface, station)? {
            let link = self.facts.link(&crossing.link)?;
            if link.down {
                return Ok(Some(self.unplugged(&crossing.link)));
            }
            let mut lossy = (0..2).filter_map(|end| self.lossy((&crossing.link, &link), end));
            if let Some((_, cause)) = lossy.find(|(all, _)| *all) {
                return Ok(Some(cause));
            }
        }
        Ok(None)
    }

    /// A rule that drops OSPF from the first to the second.
    fn filtered(&self, [from, to]: [(&Node, &str); 2]) -> Option<Cause> {
        let source =
            from.0.interface(from.1)?.addresses.iter().find_map(|net| match net.addr() {
                IpAddr::V4(four) => Some(four),
                IpAddr::V6(_) => None,
            })?;
        let by = |(node, name): (&Node, &str)| {
            Some((name.to_owned(), node.interface(name).map_or(0, |i| i.index)))
        };
        for (node, hook, input, output) in [
            (from.0, Hook::Output, None, by(from)),
            (from.0, Hook::Postrouting, None, by(from)),
            (to.0, Hook::Prerouting, by(to), None),
            (to.0, Hook::Input, by(to), None),
        ] {
            let Some(rules) = &node.rules else { continue };
            let packet = Packet { input, output, ..hello(source) };
            if let Fate::Stopped(by) = evaluate::run(rules, hook, &packet) {
                return Some(
                    self.dropped(node, hook.name(), &by)
                        .evidence("it takes OSPF to all routers (224.0.0.5)"),
                );
            }
        }
        None
    }

    fn without_session(&mut self, all: &All) -> Result<Vec<Cause>, F::Error> {
        let mut found: Vec<Cause> = Vec::new();
        let mut told: Vec<[String; 2]> = Vec::new();
        for (name, daemons) in all.iter() {
            for session in daemons.sessions.iter().filter(|s| s.state != "Established") {
                let mut other = None;
                for (peer, _) in all.iter() {
                    if other.is_none() && self.facts.has(peer, session.peer)? {
                        other = Some(peer.clone());
                    }
                }
                let mut pair =
                    [name.clone(), other.clone().unwrap_or_else(|| session.peer.to_string())];
                pair.sort();
                if told.contains(&pair) {
                    continue;
                }
                told.push(pair);
                found.extend(self.session(all, name, session, other.as_deref())?);
            }
        }
        Ok(found)
    }

    /// Why a session is not established: what stops its packets, or else what its ends say.
    fn session(
        &mut self,
        all: &All,
        name: &str,
        session: &Session,
        other: Option<&str>,
    ) -> Result<Vec<Cause>, F::Error> {
        // Two nodes may have a session for each family.
        let of_family = |s: &&Session| s.peer.is_ipv4() == session.peer.is_ipv4();
        let far = match other.and_then(|other| all.iter().find(|(n, _)| n == other)) {
            Some((_, daemons)) => {
                let node = self.facts.node(name)?;
                daemons.sessions.iter().filter(of_family).find(|s| node.has(s.peer))
            }
            None => None,
        };
        if let (Some(other), Some(far)) = (other, far) {
            let stopped = self.of_session((name, far.peer), (other, session.peer))?;
            if !stopped.is_empty() {
                return Ok(stopped);
            }
        }
        let shown = other.map_or_else(|| session.peer.to_string(), str::to_owned);
        let text = format!("the session of BGP between {name} and {shown} is not established");
        // The end that has the limit closes.
        let at = match (session.limit, far.and_then(|far| far.limit), other) {
            (None, Some(_), Some(other)) => other,
            _ => name,
        };
        let mut cause = Cause::new(CauseName::BgpSession, format!("node {at}"), text)
            .evidence(format!("node {name} says {} of {}", session.state, session.peer));
        for (who, end) in [(name, Some(session)), (shown.as_str(), far)] {
            let Some(end) = end else { continue };
            cause.evidence.extend(end.reason.iter().map(|why| format!("node {who}: {why}")));
            cause
                .evidence
                .extend(end.limit.map(|most| format!("node {who} takes at most {most} prefixes")));
        }
        if let Some(far) = far.filter(|far| {
            far.numbers[0] != session.numbers[1] || far.numbers[1] != session.numbers[0]
        }) {
            cause.evidence.push(format!(
                "node {name} is AS {} and expects AS {}; node {shown} is AS {} and expects AS {}",
                session.numbers[0], session.numbers[1], far.numbers[0], far.numbers[1]
            ));
        }
        Ok(vec![cause])
    }

    /// What stops the packets of a session, whichever end opens it.
    fn of_session(
        &mut self,
        (name, own): (&str, IpAddr),
        (other, peer): (&str, IpAddr),
    ) -> Result<Vec<Cause>, F::Error> {
        let (protocol, ports) = (Protocol::Tcp, [ANY_PORT, BGP]);
        // No session is between addresses of two families.
        let Ok(flow) = Flow::new([(name, own), (other, peer)], protocol, ports) else {
            return Ok(vec![]);
        };
        let mut found: Vec<Cause> = Vec::new();
        for flow in [flow.clone(), Flow { answers: false, ports: flow.ports, ..flow.back() }] {
            let there = walk(&mut *self.facts, &flow, None)?;
            let back =
                walk(&mut *self.facts, &there.answer(&flow), Some(&there))?.answering(&there);
            let all =
                there.stops.into_iter().chain(back.stops).filter(|stop| stop.share == Share::All);
            for stop in all {
                if !found.iter().any(|cause| cause.evidence == stop.cause.evidence) {
                    found.push(stop.cause);
                }
            }
        }
        Ok(found)
    }
}

/// RFC 2328 section 10.1: on a segment with many, two may stay in 2-Way.
fn settled(state: &str) -> bool {
    state.starts_with("Full") || state.starts_with("2-Way")
}

/// Nodes by the part of the network that they are in.
#[derive(Default)]
struct Parts {
    /// A node of the same part, up to the one that stands for all of it.
    of: BTreeMap<String, String>,
}

impl Parts {
    fn root(&self, name: &str) -> String {
        let mut at = name.to_owned();
        while let Some(next) = self.of.get(&at) {
            at.clone_from(next);
        }
        at
    }

    fn join(&mut self, one: &str, other: &str) {
        let (one, other) = (self.root(one), self.root(other));
        if one != other {
            self.of.insert(one, other);
        }
    }

    fn joined(&self, one: &str, other: &str) -> bool {
        self.root(one) == self.root(other)
    }
}

/// A greeting of OSPF, as rules see it.
fn hello(source: Ipv4Addr) -> Packet {
    let mut network: Vec<Option<u8>> = vec![None; 20];
    network[0] = Some(0x45);
    network[9] = Some(OSPF);
    for (at, byte) in source.octets().into_iter().chain(ALL_ROUTERS.octets()).enumerate() {
        network[12 + at] = Some(byte);
    }
    let transport = vec![Some(2), Some(1)];
    Packet {
        ipv4: true,
        protocol: OSPF,
        network,
        transport,
        answers: Some(false),
        ..Packet::default()
    }
}
