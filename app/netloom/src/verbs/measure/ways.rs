//! The current paths between two nodes, from the lab's plan and the kernels' routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, anyhow};
use netloom_lab::view::LinkStatus;
use netloom_model::Plan;
use netloom_model::lookup::path::{self, Finder, Next, Passage, Question, Way};
use netloom_model::lookup::target::Place;
use netloom_model::plan::PlannedNode;
use netloom_netlink::{Found, Lookup, Socket};

use crate::Usage;
use crate::spaces::{Spaces, run_in};

/// Two nodes, and the destination addresses from the first to the second, in each measured family.
pub(super) struct Ends {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) destinations: Vec<IpAddr>,
    /// The unmeasured family, if both nodes have it.
    left_out: Option<LeftOut>,
}

/// Maximum number of a node's addresses in counts of unmeasured packets.
const MOST_ADDRESSES: usize = 16;

/// An unmeasured family: its packets are counted where they leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// 4 or 6.
    pub(super) version: u8,
    /// Pairs of sender and receiver in this family.
    pub(super) pairs: Vec<(IpAddr, IpAddr)>,
}

impl LeftOut {
    fn of(from: &PlannedNode, to: &PlannedNode, version: u8) -> Option<LeftOut> {
        let all = |node: &PlannedNode| -> Vec<IpAddr> {
            let all = node.interfaces.iter().flat_map(|i| &i.addresses).map(|net| net.addr());
            all.filter(|address| family(*address) == version).take(MOST_ADDRESSES).collect()
        };
        let to = all(to);
        let pairs: Vec<_> =
            all(from).into_iter().flat_map(|a| to.iter().map(move |b| (a, *b))).collect();
        (!pairs.is_empty()).then_some(LeftOut { version, pairs })
    }
}

/// 4 or 6.
pub(super) fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { 4 } else { 6 }
}

impl Ends {
    /// Finds the nodes in the lab, and their addresses of this family, or of both.
    pub(super) fn find(spaces: &Spaces, names: [&str; 2], only: Option<u8>) -> Result<Ends> {
        let plan = spaces.plan().context("there is no lab")?;
        let nodes = [path::node(plan, names[0])?, path::node(plan, names[1])?];
        let address = |node: &PlannedNode, version| match version {
            4 => node.ipv4().map(IpAddr::from),
            _ => node.ipv6().map(IpAddr::from),
        };
        let without = |version| {
            let lacks = nodes.iter().zip(names).find(|(node, _)| address(node, version).is_none());
            lacks.map(|(_, name)| (name, version))
        };
        let wanted: Vec<u8> = [4, 6].into_iter().filter(|v| only.is_none_or(|o| o == *v)).collect();
        let lacking: Vec<_> = wanted.iter().filter_map(|version| without(*version)).collect();
        if lacking.len() == wanted.len() {
            let lacks =
                |(name, version): &(&str, u8)| format!("node {name:?} has no IPv{version} address");
            let other =
                only.map_or("", |version| if version == 4 { "; try -6" } else { "; try -4" });
            let words: Vec<String> = lacking.iter().map(lacks).collect();
            return Err(Usage(format!("{}{other}", words.join(", "))).into());
        }
        let measured = wanted.into_iter().filter(|version| without(*version).is_none());
        let destinations = measured.filter_map(|version| address(nodes[1], version)).collect();
        let left_out = only.and_then(|version| LeftOut::of(nodes[0], nodes[1], 10 - version));
        let [from, to] = names.map(str::to_owned);
        Ok(Ends { from, to, destinations, left_out })
    }
}

/// A path, and the packets that take it.
pub(super) struct Measured {
    pub(super) way: Way,
    /// Pairs of sender and receiver: in one family, or in both if they take the same path.
    pub(super) pairs: Vec<(IpAddr, IpAddr)>,
    /// Whether this is the path back.
    pub(super) back: bool,
}

impl Measured {
    /// `IPv4`, `IPv6`, or both.
    pub(super) fn families(&self) -> String {
        let all: Vec<String> = self.versions().map(|version| format!("IPv{version}")).collect();
        all.join(" and ")
    }

    /// 4, 6 or both.
    pub(super) fn versions(&self) -> impl Iterator<Item = u8> {
        self.pairs.iter().map(|(source, _)| family(*source))
    }
}

/// The path there and, if measured, the path back; one per family where they differ.
pub(super) struct Ways {
    pub(super) all: Vec<Measured>,
    /// The unmeasured family.
    pub(super) left_out: Option<LeftOut>,
    /// Directions of links with a wire, at the time the paths were found.
    wired: Vec<(String, usize)>,
}

impl Ways {
    /// Queries each node on the path, and opens the doors to all of them.
    pub(super) fn find(spaces: &mut Spaces, ends: &Ends, one_way: bool) -> Result<Ways> {
        let plan = spaces.plan().cloned().context("there is no lab")?;
        let wired = wired(spaces)?;
        let finder = Finder::new(&plan, wired.iter().map(|(link, end)| (link.as_str(), *end)));
        let mut find = |from: &str, to: &str, addresses| {
            let mut ask = |question: &Question<'_>| next(spaces, question);
            finder.find((from, to), addresses, &mut ask)
        };
        let mut of_family = |destination| -> Result<Vec<(Way, bool)>> {
            let there = find(&ends.from, &ends.to, (None, destination))?;
            let addresses = (Some(there.destination), there.source);
            let mut both = vec![(there, false)];
            if !one_way {
                both.push((find(&ends.to, &ends.from, addresses)?, true));
            }
            Ok(both)
        };
        let (mut found, mut left_out, mut failures) = (vec![], ends.left_out.clone(), vec![]);
        for destination in &ends.destinations {
            match of_family(*destination) {
                Ok(ways) => found.extend(ways),
                Err(error) => failures.push((*destination, error)),
            }
        }
        if found.is_empty()
            && let Some((_, error)) = failures.pop()
        {
            return Err(error);
        }
        for (destination, error) in failures {
            let version = family(destination);
            eprintln!("note: IPv{version} is not measured: {error:#}");
            left_out =
                LeftOut::of(path::node(&plan, &ends.from)?, path::node(&plan, &ends.to)?, version);
        }
        let all = together(found);
        for way in &all {
            note_other_ways(&plan, &way.way);
        }
        let ways = Ways { all, left_out, wired };
        for passage in ways.all.iter().flat_map(|way| &way.way.points) {
            spaces.open(&passage.place)?;
        }
        Ok(ways)
    }

    /// All interfaces on the paths, by the names of their points.
    pub(super) fn passages(&self) -> impl Iterator<Item = (String, &Place, &str)> {
        let all = self.all.iter().flat_map(|way| &way.way.points);
        all.map(|p| (name(p), &p.place, p.interface.as_str()))
    }

    /// Whether a path needs its family as a label, because the other family takes another path.
    pub(super) fn differs(&self, way: &Measured) -> bool {
        self.all.iter().filter(|other| other.back == way.back).count() > 1
    }
}

/// Merges paths of several families that pass the same points.
fn together(found: Vec<(Way, bool)>) -> Vec<Measured> {
    let mut all: Vec<Measured> = vec![];
    for (way, back) in found {
        let pair = (way.source, way.destination);
        let same = |other: &&mut Measured| {
            other.back == back && (&other.way.points, &other.way.hops) == (&way.points, &way.hops)
        };
        match all.iter_mut().find(same) {
            Some(other) => other.pairs.push(pair),
            None => all.push(Measured { way, pairs: vec![pair], back }),
        }
    }
    all
}

/// Notes where some flows take another path than the one found.
fn note_other_ways(plan: &Plan, way: &Way) {
    if let Some((node, count)) = path::branch(plan, way) {
        eprintln!(
            "note: node {node:?} has {count} next hops of equal cost to {}: the way shown is one of several, \
             and packets of other flows are missing behind it; `routing: {{ecmp: false}}` makes it one",
            way.to
        );
    }
}

/// The name of a point's interface: the port's, or its wire's.
pub(super) fn name(passage: &Passage) -> String {
    if passage.wire { format!("{} (wire)", passage.name) } else { passage.name.clone() }
}

/// The next hop according to a node's kernel.
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

/// Notes wires added or removed in the meantime: the points of their links were then in the wrong place.
pub(super) fn note_changes(spaces: &Spaces, ways: &Ways) {
    // A lab that is gone has no wires to report.
    let Ok(now) = wired(spaces) else { return };
    let mut changed: BTreeMap<&str, ()> = BTreeMap::new();
    let both = [(&now, &ways.wired), (&ways.wired, &now)];
    for (some, others) in both {
        changed.extend(some.iter().filter(|w| !others.contains(w)).map(|w| (w.0.as_str(), ())));
    }
    for hop in ways.all.iter().flat_map(|way| &way.way.hops) {
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

    fn way(addresses: [&str; 2], middle: &str) -> Way {
        let point = |name: &str, out| Passage {
            place: Place::Node(name.to_owned()),
            interface: "eth0".into(),
            name: format!("{name}:eth0"),
            out,
            wire: false,
        };
        Way {
            from: "a".into(),
            to: "b".into(),
            source: addresses[0].parse().unwrap(),
            destination: addresses[1].parse().unwrap(),
            points: vec![point("a", true), point(middle, false), point("b", false)],
            hops: vec!["link x".into(), "link y".into()],
        }
    }

    #[test]
    fn families_that_take_the_same_way_are_one_and_others_are_told_apart() {
        let (four, six) = (["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]);
        let same = together(vec![(way(four, "r"), false), (way(six, "r"), false)]);
        assert_eq!((same.len(), same[0].pairs.len()), (1, 2));
        assert_eq!(same[0].families(), "IPv4 and IPv6");
        let apart = together(vec![(way(four, "r"), false), (way(six, "s"), false)]);
        assert_eq!(apart.iter().map(Measured::families).collect::<Vec<_>>(), ["IPv4", "IPv6"]);
        let ways = Ways { all: apart, left_out: None, wired: vec![] };
        assert!(ways.differs(&ways.all[0]) && ways.differs(&ways.all[1]));
        // There and back are two paths, even through the same points.
        let both = together(vec![(way(four, "r"), false), (way(four, "r"), true)]);
        assert_eq!(both.len(), 2);
    }

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
