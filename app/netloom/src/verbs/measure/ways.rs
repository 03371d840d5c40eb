//! The ways between two nodes, as the lab's plan and the kernels' routes have them now.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, anyhow};
use netloom_lab::target::Place;
use netloom_lab::view::LinkStatus;
use netloom_lab::way::{self, Finder, Next, Passage, Question, Way};
use netloom_model::Plan;
use netloom_netlink::{Found, Lookup, Socket};

use crate::Usage;
use crate::spaces::{Spaces, run_in};

/// Two nodes, and for whom packets from the first to the second are.
pub(super) struct Ends {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) destination: IpAddr,
}

impl Ends {
    /// Finds the nodes in the lab.
    pub(super) fn find(spaces: &Spaces, from: &str, to: &str, version: u8) -> Result<Ends> {
        let plan = spaces.plan().context("there is no lab")?;
        let address = |name: &str| -> Result<IpAddr> {
            let node = way::node(plan, name)?;
            let found = match version {
                4 => node.ipv4().map(IpAddr::from),
                _ => node.ipv6().map(IpAddr::from),
            };
            let other = if version == 4 { "-6" } else { "-4" };
            found.ok_or_else(|| {
                Usage(format!("node {name:?} has no IPv{version} address; try {other}")).into()
            })
        };
        address(from)?;
        let destination = address(to)?;
        Ok(Ends { from: from.to_owned(), to: to.to_owned(), destination })
    }
}

/// The way there, and the way back if it is measured.
pub(super) struct Ways {
    pub(super) all: Vec<Way>,
    /// Directions of links with a wire, as they were when the ways were found.
    wired: Vec<(String, usize)>,
}

impl Ways {
    /// Asks each node on the way, and opens the doors to all of it.
    pub(super) fn find(spaces: &mut Spaces, ends: &Ends, one_way: bool) -> Result<Ways> {
        let plan = spaces.plan().cloned().context("there is no lab")?;
        let wired = wired(spaces)?;
        let finder = Finder::new(&plan, wired.iter().map(|(link, end)| (link.as_str(), *end)));
        let mut failed = None;
        let mut find = |from: &str, to: &str, addresses| {
            let mut ask = |question: &Question<'_>| match next(spaces, question) {
                Ok(next) => Ok(next),
                Err(error) => {
                    failed = Some(error);
                    Ok(None)
                }
            };
            let found = finder.find((from, to), addresses, &mut ask);
            match failed.take() {
                Some(error) => Err(error),
                None => Ok(found?),
            }
        };
        let there = find(&ends.from, &ends.to, (None, ends.destination))?;
        let mut all = vec![];
        if !one_way {
            all.push(find(&ends.to, &ends.from, (Some(there.destination), there.source))?);
        }
        all.insert(0, there);
        for way in &all {
            note_other_ways(&plan, way);
        }
        let ways = Ways { all, wired };
        for passage in ways.all.iter().flat_map(|way| &way.points) {
            spaces.open(&passage.place)?;
        }
        Ok(ways)
    }

    /// Whose packets go to whom, of each way.
    pub(super) fn addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        self.all.iter().map(|way| (way.source, way.destination)).collect()
    }

    /// All interfaces on the ways, by the names that points have.
    pub(super) fn passages(&self) -> impl Iterator<Item = (String, &Place, &str)> {
        let all = self.all.iter().flat_map(|way| &way.points);
        all.map(|p| (name(p), &p.place, p.interface.as_str()))
    }
}

/// Tells where some flows take another way than the one found.
fn note_other_ways(plan: &Plan, way: &Way) {
    if let Some((node, count)) = way::branch(plan, way) {
        eprintln!(
            "note: node {node:?} has {count} next hops of equal cost to {}: the way shown is one of several, \
             and packets of other flows are missing behind it; `routing: {{ecmp: false}}` makes it one",
            way.to
        );
    }
}

/// The name of a point's interface: a port's, or its wire's.
pub(super) fn name(passage: &Passage) -> String {
    if passage.wire { format!("{} (wire)", passage.name) } else { passage.name.clone() }
}

/// What a node's kernel answers.
fn next(spaces: &mut Spaces, question: &Question<'_>) -> Result<Option<Next>> {
    let place = Place::Node(question.node.to_owned());
    spaces.open(&place)?;
    let init = spaces.init(&place);
    run_in(init.as_deref(), || {
        let mut socket = Socket::open_to_ask()?;
        let forwarded = match question.forwarded {
            Some((source, interface)) => Some((source, socket.index_of(interface)?)),
            None => None,
        };
        let found = socket.route_to(&Lookup { to: question.to, forwarded })?;
        let Some(Found::Leaves { link, via, source }) = found else { return Ok(None) };
        let left = socket.link(link)?;
        let interface =
            left.map(|link| link.name).with_context(|| format!("link {link}: it is gone"))?;
        Ok(Some(Next { interface, via, source }))
    })
    .with_context(|| format!("node {:?}: ask for its route to {}", question.node, question.to))
}

/// Directions of links that have a wire now.
fn wired(spaces: &Spaces) -> Result<Vec<(String, usize)>> {
    let client = spaces.client().ok_or_else(|| anyhow!("there is no lab"))?;
    let links: Vec<LinkStatus> = client.status()?.links;
    let of_link = |link: &LinkStatus| -> Vec<(String, usize)> {
        let directions = link.wire.iter().flat_map(|wire| wire.directions.iter().enumerate());
        directions.filter(|(_, d)| d.is_some()).map(|(end, _)| (link.name.clone(), end)).collect()
    };
    Ok(links.iter().flat_map(of_link).collect())
}

/// Tells of wires that were put in or taken out meanwhile: their links' points were not where they ought
/// to be then.
pub(super) fn note_changes(spaces: &Spaces, ways: &Ways) {
    // A lab that is gone has no wires to tell of.
    let Ok(now) = wired(spaces) else { return };
    let mut changed: BTreeMap<&str, ()> = BTreeMap::new();
    let both = [(&now, &ways.wired), (&ways.wired, &now)];
    for (some, others) in both {
        changed.extend(some.iter().filter(|w| !others.contains(w)).map(|w| (w.0.as_str(), ())));
    }
    for hop in ways.all.iter().flat_map(|way| &way.hops) {
        let link = hop.strip_prefix("link ").unwrap_or(hop);
        if changed.remove(link).is_some() {
            eprintln!(
                "note: link {link}: it got or lost its wire while it was measured, so that figures of \
                 hops next to it cannot be relied on"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_s_point_has_a_name_of_its_own() {
        let mut passage = Passage {
            place: Place::Core,
            interface: "nlw3".into(),
            name: "s1/r1:eth0".into(),
            out: true,
            wire: true,
        };
        assert_eq!(name(&passage), "s1/r1:eth0 (wire)");
        passage.wire = false;
        assert_eq!(name(&passage), "s1/r1:eth0");
    }
}
