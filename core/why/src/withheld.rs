//! Why a node that learns its routes has none though all daemons talk: BGP of a node does not tell a route, its neighbour does not
//! take it, or has no way to its next hop (RFC 4271 sections 9.1 and 9.2).

use std::net::IpAddr;
use std::rc::Rc;

use ipnet::IpNet;

use crate::cause::{Cause, CauseName};
use crate::facts::{Daemons, Facts, Life, Lookup, PolicyFilter, Routed, Session};
use crate::walk::Walker;

/// A session from the node that has a route to the one that has none.
struct Step<'a> {
    name: &'a str,
    session: &'a Session,
    peer: &'a str,
    /// The same session as the peer sees it.
    far: Option<&'a Session>,
}

impl<F: Facts> Walker<'_, F> {
    /// Where a route to the destination goes no further.
    pub(crate) fn withheld(
        &mut self,
        all: &Rc<Vec<(String, Daemons)>>,
    ) -> Result<Vec<Cause>, F::Error> {
        let mut found: Vec<Cause> = Vec::new();
        for (name, daemons) in all.iter() {
            for session in daemons.sessions.iter().filter(|s| s.state == "Established") {
                let Some((peer, far)) = self.other_end(all, name, session)? else { continue };
                if !self.reaches(name)? || self.reaches(peer)? {
                    continue;
                }
                let cause = self.between(&Step { name, session, peer, far })?;
                // A route that is not taken from one may come from another: the first place is enough.
                found.extend(cause.filter(|cause| found.iter().all(|f| f.place != cause.place)));
            }
        }
        Ok(found)
    }

    fn other_end<'d>(
        &mut self,
        all: &'d [(String, Daemons)],
        name: &str,
        session: &Session,
    ) -> Result<Option<(&'d str, Option<&'d Session>)>, F::Error> {
        for (peer, daemons) in all {
            if peer != name && self.facts.has(peer, session.peer)? {
                let node = self.facts.node(name)?;
                let far = daemons.sessions.iter().find(|s| node.has(s.peer));
                return Ok(Some((peer, far)));
            }
        }
        Ok(None)
    }

    fn reaches(&mut self, name: &str) -> Result<bool, F::Error> {
        let own = self.own_lookup();
        let routed = self.facts.route(name, &own)?;
        Ok(self.facts.node(name)?.life == Life::Up && !matches!(routed, Routed::Refused(_)))
    }

    fn own_lookup(&self) -> Lookup<'static> {
        Lookup { to: self.flow.destination, came: None, carries: None }
    }

    fn between(&mut self, step: &Step<'_>) -> Result<Option<Cause>, F::Error> {
        let to = self.flow.destination;
        let Step { name, session, peer, far } = step;
        let Some(told) = self.facts.bgp_route(name, to)? else { return Ok(None) };
        let Some(prefix) = told.prefix else { return self.not_announced(step) };
        let untold = !told.told_to.contains(&session.peer);
        if let Some(hop) = told.unreachable.first().filter(|_| untold) {
            return Ok(Some(unreachable(name, *hop, prefix)));
        }
        if untold {
            let text = format!(
                "the BGP of node {name} has a route to {prefix}, and does not tell it to {peer}"
            );
            let cause = Cause::new(CauseName::RouteNotAdvertised, format!("node {name}"), text);
            let cause = cause.evidence(format!(
                "`show bgp {prefix}` of node {name} does not say that it is advertised to {}",
                session.peer
            ));
            return Ok(Some(self.by_filters(cause, name, session, true)));
        }
        let Some(taken) = self.facts.bgp_route(peer, to)? else { return Ok(None) };
        if taken.prefix != Some(prefix) {
            let text = format!(
                "node {name} tells {peer} a route to {prefix}, and the BGP of {peer} does not take it"
            );
            let cause = Cause::new(CauseName::RouteNotAccepted, format!("node {peer}"), text)
                .evidence(format!("node {name} advertises it to {}, and `show bgp {prefix}` of node {peer} has nothing", session.peer));
            return Ok(Some(match far {
                Some(far) => self.by_filters(cause, peer, far, false),
                None => cause,
            }));
        }
        Ok(taken.unreachable.first().map(|hop| unreachable(peer, *hop, prefix)))
    }

    /// The kernel of a node has a route which its BGP does not know.
    fn not_announced(&mut self, step: &Step<'_>) -> Result<Option<Cause>, F::Error> {
        let (Step { name, session, peer, .. }, to) = (step, self.flow.destination);
        let own = self.own_lookup();
        let matched = self.facts.matched(name, &own)?.map(|matched| matched.to);
        if matched.is_some_and(|prefix| prefix.prefix_len() == 0) {
            // It sends what it does not know to somebody else, and need not tell anybody.
            return Ok(None);
        }
        let text = format!(
            "the BGP of node {name} does not know a route to {to}, and so tells none to {peer}"
        );
        let cause = Cause::new(CauseName::RouteNotAdvertised, format!("node {name}"), text);
        let Some(prefix) = matched else { return Ok(Some(cause)) };
        let family = if to.is_ipv4() { "ipv4" } else { "ipv6" };
        let lines = [
            "configure terminal".to_owned(),
            format!("router bgp {}", session.numbers[0]),
            format!("address-family {family} unicast"),
            format!("network {prefix}"),
        ];
        let cause = cause
            .evidence(format!("its kernel has a route to {prefix}, and no `network` or `redistribute` of BGP takes it"))
            .mend(self.vtysh(name, &lines));
        Ok(Some(cause))
    }

    /// Filters of a session; a single one is taken away.
    fn by_filters(&self, mut cause: Cause, name: &str, session: &Session, out: bool) -> Cause {
        let which = if out { "out" } else { "in" };
        let filters: Vec<&PolicyFilter> =
            session.filters.iter().filter(|filter| filter.out == out).collect();
        for PolicyFilter { kind, name: filter, .. } in &filters {
            cause = cause.evidence(format!(
                "node {name} has `neighbor {} {kind} {filter} {which}`",
                session.peer
            ));
        }
        let [PolicyFilter { kind, name: filter, .. }] = filters.as_slice() else { return cause };
        let family = if session.peer.is_ipv4() { "ipv4" } else { "ipv6" };
        let lines = [
            "configure terminal".to_owned(),
            format!("router bgp {}", session.numbers[0]),
            format!("address-family {family} unicast"),
            format!("no neighbor {} {kind} {filter} {which}", session.peer),
        ];
        cause.mend(self.vtysh(name, &lines))
    }

    fn vtysh(&self, node: &str, lines: &[String]) -> String {
        let lines: Vec<String> = lines.iter().map(|line| format!("-c '{line}'")).collect();
        self.exec(node, &format!("vtysh -d bgpd {}", lines.join(" ")))
    }
}

fn unreachable(name: &str, hop: IpAddr, prefix: IpNet) -> Cause {
    let text = format!("node {name} has no way to {hop}, the next hop of its route to {prefix}");
    Cause::new(CauseName::NextHopUnreachable, format!("node {name}"), text)
        .evidence(format!("the BGP of node {name} says that {hop} is not accessible"))
}
