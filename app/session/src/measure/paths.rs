//! The current paths between two nodes, from the lab's plan and the kernels' routes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netloom_lab::view::LinkStatus;
use netloom_model::lookup::path::{
    self, Answer, Finder, Next, PacketPath, Passage, Question, Stop,
};
use netloom_model::lookup::target::Space;
use netloom_model::plan::PlannedNode;
use netloom_netlink::{Found, Lookup, Socket};
use netloom_sys::sysctl;

use super::note::Note;
use crate::spaces::run_in;
use crate::{Error, Result, Spaces};

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
pub struct LeftOut {
    /// 4 or 6.
    pub version: u8,
    /// Pairs of sender and receiver in this family.
    pub pairs: Vec<(IpAddr, IpAddr)>,
}

impl LeftOut {
    fn of(from: &PlannedNode, to: &PlannedNode, version: u8) -> Option<LeftOut> {
        let all = |node: &PlannedNode| -> Vec<IpAddr> {
            let all = node.all_addresses().map(|net| net.addr());
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
        let (_, plan) = spaces.lab()?;
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
            let words: Vec<String> = lacking.iter().map(lacks).collect();
            return Err(Error::NoAddress { lacking: words.join(", "), only });
        }
        let measured = wanted.into_iter().filter(|version| without(*version).is_none());
        let destinations = measured.filter_map(|version| address(nodes[1], version)).collect();
        // 6 for 4, and 4 for 6.
        let left_out = only.and_then(|version| LeftOut::of(nodes[0], nodes[1], 10 - version));
        let [from, to] = names.map(str::to_owned);
        Ok(Ends { from, to, destinations, left_out })
    }
}

/// A path, and the packets that take it.
pub struct Measured {
    /// The path.
    pub way: PacketPath,
    /// Pairs of sender and receiver: in one family, or in both if they take the same path.
    pub pairs: Vec<(IpAddr, IpAddr)>,
    /// Whether this is the path back.
    pub back: bool,
}

impl Measured {
    /// `IPv4`, `IPv6`, or both.
    pub fn families(&self) -> String {
        let all: Vec<String> = self.versions().map(|version| format!("IPv{version}")).collect();
        all.join(" and ")
    }

    /// 4, 6 or both.
    pub fn versions(&self) -> impl Iterator<Item = u8> {
        self.pairs.iter().map(|(source, _)| family(*source))
    }
}

/// The path there and, if measured, the path back; one per family where they differ.
pub struct Paths {
    /// Those there and those back.
    pub all: Vec<Measured>,
    /// The unmeasured family.
    pub left_out: Option<LeftOut>,
    /// Directions of links with a wire, at the time the paths were found.
    wired: Vec<(String, usize)>,
}

impl Paths {
    /// Queries each node on the path, and opens the entries to all of them.
    pub(super) fn find(
        spaces: &mut Spaces,
        ends: &Ends,
        one_way: bool,
        tell: &mut dyn FnMut(Note),
    ) -> Result<Paths> {
        let plan = spaces.lab()?.1.clone();
        let wired = wired(spaces)?;
        let finder = Finder::new(&plan, named(&wired));
        let mut find = |from: &str, to: &str, addresses| {
            let mut ask = |question: &Question<'_>| next(spaces, question);
            finder.find((from, to), addresses, &mut ask)
        };
        let mut of_family = |destination| -> Result<Vec<(PacketPath, bool)>> {
            let there = find(&ends.from, &ends.to, (None, destination))?;
            let addresses = (Some(there.destination), there.source);
            let mut both = vec![(there, false)];
            if !one_way {
                // From the address that packets went to, to the one that they came from, as answers
                // do.
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
            tell(Note::Unmeasured { version, error });
            left_out =
                LeftOut::of(path::node(&plan, &ends.from)?, path::node(&plan, &ends.to)?, version);
        }
        let all = together(found);
        for way in &all {
            if let Some((node, count)) = path::branch(&plan, &way.way) {
                tell(Note::SeveralWays { node: node.to_owned(), count, to: way.way.to.clone() });
            }
        }
        let ways = Paths { all, left_out, wired };
        for passage in ways.all.iter().flat_map(|way| &way.way.points) {
            spaces.open(&passage.space)?;
        }
        Ok(ways)
    }

    /// All interfaces on the paths, by the names of their points.
    pub(super) fn passages(&self) -> impl Iterator<Item = (String, &Space, &str)> {
        let all = self.all.iter().flat_map(|way| &way.way.points);
        all.map(|p| (point_name(p), &p.space, p.interface.as_str()))
    }

    /// The directions of links that had a wire when the paths were found.
    pub(super) fn wired(&self) -> impl Iterator<Item = (&str, usize)> {
        named(&self.wired)
    }

    /// Whether a path needs its family as a label, because the other family takes another path.
    pub fn differs(&self, way: &Measured) -> bool {
        self.all.iter().filter(|other| other.back == way.back).count() > 1
    }
}

/// Merges paths of several families that pass the same points.
fn together(found: Vec<(PacketPath, bool)>) -> Vec<Measured> {
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

/// The name of a point's interface: the port's, or its wire's.
pub fn point_name(passage: &Passage) -> String {
    if passage.wire { format!("{} (wire)", passage.name) } else { passage.name.clone() }
}

fn named(wired: &[(String, usize)]) -> impl Iterator<Item = (&str, usize)> {
    wired.iter().map(|(link, end)| (link.as_str(), *end))
}

/// The next hop according to a node's kernel; according to the plan if that is a guest's.
pub(super) fn next(spaces: &mut Spaces, question: &Question<'_>) -> Result<Answer> {
    let (_, plan) = spaces.lab()?;
    if path::node(plan, question.node)?.kind.as_vm().is_some() {
        let planned = path::by_plan(plan, question)?;
        // Its interface's points are in the node around it.
        spaces.open(&Space::Node(question.node.to_owned()))?;
        return Ok(planned);
    }
    let space = Space::Node(question.node.to_owned());
    spaces.open(&space)?;
    let init = spaces.init(&space);
    let operation = format!("ask for its route to {}", question.to);
    let asked = run_in(init.as_deref(), || {
        let mut socket = Socket::open_to_ask()?;
        let forwarded = match question.forwarded {
            Some((source, interface)) => Some((source, socket.index_of(interface)?)),
            None => None,
        };
        let found = socket.route_to(&Lookup { to: question.to, forwarded })?;
        let Some(Found::Leaves { link, via, source }) = found else {
            return Ok(Err(stop(&mut socket, question, forwarded)?));
        };
        let left = socket.link(link)?;
        let gone = || Error::unfit(format!("link {link}"), "it is gone");
        Ok(Ok(Next { interface: left.ok_or_else(gone)?.name, via, source }))
    });
    Ok(asked.map_err(Error::asking(question.node, operation))?)
}

/// Why a node sends packets no further, asked in its network. Of forwarded packets the kernel's refusal alone does not tell:
/// it is the same without a route, without forwarding, and from the reverse path filter.
fn stop(
    socket: &mut Socket,
    question: &Question<'_>,
    forwarded: Option<(IpAddr, u32)>,
) -> netloom_netlink::Result<Stop> {
    let (Some((source, index)), Some((_, interface))) = (forwarded, question.forwarded) else {
        return Ok(Stop::NoRoute);
    };
    let mut own = |to| socket.route_to(&Lookup { to, forwarded: None });
    if !matches!(own(question.to)?, Some(Found::Leaves { .. })) {
        return Ok(Stop::NoRoute);
    }
    let family = if question.to.is_ipv4() { "ipv4" } else { "ipv6" };
    let setting = |of: &str, name: &str| {
        let value = sysctl::get(&format!("net/{family}/conf/{of}/{name}"));
        value.and_then(|value| value.parse::<u8>().ok()).unwrap_or(0)
    };
    if setting(interface, "forwarding") == 0 {
        return Ok(Stop::NotForwarding);
    }
    // Of both the larger counts (ip-sysctl.rst): 1 wants the way back by this interface, 2 any.
    let filter = setting("all", "rp_filter").max(setting(interface, "rp_filter"));
    let back = own(source)?;
    let by = |link| matches!(back, Some(Found::Leaves { link: way, .. }) if way == link);
    let refused = match filter {
        1 => !by(index),
        2 => back.is_none(),
        _ => false,
    };
    Ok(if refused { Stop::ReversePath } else { Stop::Unknown })
}

/// Directions of links that have a wire now.
fn wired(spaces: &Spaces) -> Result<Vec<(String, usize)>> {
    let links = spaces.lab()?.0.links().map_err(Error::Lab)?;
    let of_link = |link: &LinkStatus| -> Vec<(String, usize)> {
        let directions = link.wire.iter().flat_map(|wire| wire.directions.iter().enumerate());
        directions.filter(|(_, d)| d.is_some()).map(|(end, _)| (link.name.clone(), end)).collect()
    };
    Ok(links.iter().flat_map(of_link).collect())
}

/// Links on the paths that got or lost a wire in the meantime: their points were then in the wrong place.
pub(super) fn rewired(spaces: &Spaces, ways: &Paths) -> Vec<String> {
    // A lab that is gone has no wires to report.
    let Ok(now) = wired(spaces) else { return vec![] };
    let mut changed: BTreeSet<&str> = BTreeSet::new();
    let both = [(&now, &ways.wired), (&ways.wired, &now)];
    for (some, others) in both {
        changed.extend(some.iter().filter(|w| !others.contains(w)).map(|w| w.0.as_str()));
    }
    let hops = ways.all.iter().flat_map(|way| &way.way.hops);
    let links = hops.map(|hop| hop.strip_prefix("link ").unwrap_or(hop));
    links.filter(|link| changed.remove(link)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(addresses: [&str; 2], middle: &str) -> PacketPath {
        let point = |name: &str, out| Passage {
            space: Space::Node(name.to_owned()),
            interface: "eth0".into(),
            name: format!("{name}:eth0"),
            out,
            wire: false,
        };
        PacketPath {
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
        let ways = Paths { all: apart, left_out: None, wired: vec![] };
        assert!(ways.differs(&ways.all[0]) && ways.differs(&ways.all[1]));
        // There and back are two paths, even through the same points.
        let both = together(vec![(way(four, "r"), false), (way(four, "r"), true)]);
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn a_wire_s_point_has_a_name_of_its_own() {
        let mut passage = Passage {
            space: Space::Core,
            interface: "nlw3".into(),
            name: "s1/r1:eth0".into(),
            out: true,
            wire: true,
        };
        assert_eq!(point_name(&passage), "s1/r1:eth0 (wire)");
        passage.wire = false;
        assert_eq!(point_name(&passage), "s1/r1:eth0");
    }
}
