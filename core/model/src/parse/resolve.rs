//! Resolves names to indices: every end of a link exists, nothing is used twice, switches form no loop.

use std::collections::{HashMap, HashSet};

use netloom_config::{Place, Report, quote};

use super::raw::{Parts, RawEnd, RawLink, Resolved};
use super::sets::Sets;
use crate::file::elsewhere;
use crate::file::values::At;
use crate::lab::{End, Via};

/// The object of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Node(usize),
    Switch(usize),
}

/// The names of nodes and switches; reports duplicates.
pub(crate) fn names(parts: &Parts, report: &mut Report) -> HashMap<String, Named> {
    let mut names: HashMap<String, (Named, Place)> = HashMap::new();
    let nodes = parts
        .nodes
        .iter()
        .enumerate()
        .map(|(i, o)| (Named::Node(i), &o.value.node.name, o.place, &o.repetition));
    let switches = parts
        .switches
        .iter()
        .enumerate()
        .map(|(i, o)| (Named::Switch(i), &o.value.switch.name, o.place, &o.repetition));
    for (named, name, place, repetition) in nodes.chain(switches) {
        if let Some((first, at)) = names.get(name) {
            let what = match first {
                Named::Node(_) => "node",
                Named::Switch(_) => "switch",
            };
            report.set_repetition(repetition.clone());
            report.error(
                place,
                format!("the name {} is taken by the {what} on line {}", quote(name), at.line),
            );
        } else {
            names.insert(name.clone(), (named, place));
        }
    }
    report.set_repetition(None);
    names.into_iter().map(|(name, (named, _))| (name, named)).collect()
}

/// Resolves the ends of all links; those with errors are left out. `loops`: switches may form loops.
pub(crate) fn links<'p>(
    parts: &'p Parts,
    names: &'p HashMap<String, Named>,
    loops: bool,
    report: &mut Report,
) -> Vec<Resolved<'p>> {
    // Counted before any is reported: the first message already says what several links share.
    let mut unknown = HashMap::new();
    for end in parts.links.iter().flat_map(|link| &link.value.ends) {
        if let RawEnd::Named { name, iface: None } = &end.value
            && !names.contains_key(name)
        {
            *unknown.entry(name.as_str()).or_default() += 1;
        }
    }
    let (taken, link_names) = (HashMap::new(), HashMap::new());
    let mut resolver = Resolver { names, taken, link_names, all: sorted(names), unknown };
    let mut resolved = Vec::with_capacity(parts.links.len());
    for raw in &parts.links {
        report.set_repetition(raw.repetition.clone());
        resolver.check_name(&raw.value, report);
        if let Some(ends) = resolver.ends(&raw.value, report) {
            resolved.push(Resolved { raw, ends });
        }
    }
    check_switches(parts, &resolved, loops, report);
    report.set_repetition(None);
    resolved
}

/// For suggestions, in a deterministic order.
fn sorted(names: &HashMap<String, Named>) -> Vec<&str> {
    let mut all: Vec<&str> = names.keys().map(String::as_str).collect();
    all.sort_unstable();
    all
}

struct Resolver<'n> {
    names: &'n HashMap<String, Named>,
    /// The line of the link that uses an interface: of a node, or of the host (`None`).
    taken: HashMap<(Option<usize>, String), u32>,
    link_names: HashMap<String, u32>,
    all: Vec<&'n str>,
    /// Names that nothing has, and how many links end there.
    unknown: HashMap<&'n str, usize>,
}

impl Resolver<'_> {
    fn check_name(&mut self, link: &RawLink, report: &mut Report) {
        let Some(name) = &link.name else { return };
        match self.link_names.get(&name.value) {
            Some(line) => {
                let message =
                    format!("the name {} is taken by the link on line {line}", quote(&name.value));
                report.error(name.place, message);
            }
            None => {
                self.link_names.insert(name.value.clone(), name.place.line);
            }
        }
    }

    fn ends(&mut self, link: &RawLink, report: &mut Report) -> Option<[End; 2]> {
        let [a, b] = &link.ends;
        // Both are read before either fails, so that one run tells of both.
        let first = self.end(a, report);
        let second = self.end(b, report);
        let (first, second) = (first?, second?);
        let shown = link.shown();
        if a.value.is_door() && b.value.is_door() {
            report.error(
                a.place,
                format!("link {shown}: joins two doors; one end must be a node or a switch"),
            );
            return None;
        }
        match (&first, &second) {
            (End::Nowhere, End::Node { .. }) | (End::Node { .. }, End::Nowhere) => {
                Some([first, second])
            }
            (End::Nowhere, _) | (_, End::Nowhere) => {
                let message =
                    format!("link {shown}: a `nowhere` link needs a node at its other end");
                report.error(a.place, message);
                None
            }
            (End::Node { node: x, .. }, End::Node { node: y, .. }) if x == y => {
                report.error(a.place, format!("link {shown}: joins a node to itself"));
                None
            }
            (End::Switch { switch: x }, End::Switch { switch: y }) if x == y => {
                report.error(a.place, format!("link {shown}: joins a switch to itself"));
                None
            }
            _ => Some([first, second]),
        }
    }

    fn end(&mut self, end: &At<RawEnd>, report: &mut Report) -> Option<End> {
        match &end.value {
            RawEnd::Internet => Some(End::Internet),
            RawEnd::Nowhere => Some(End::Nowhere),
            RawEnd::Host(iface) => {
                self.take(None, iface, end, report)?;
                Some(End::Host { iface: iface.clone() })
            }
            RawEnd::Named { name, iface } => match self.names.get(name) {
                Some(&Named::Node(node)) => {
                    if let Some(iface) = iface {
                        self.take(Some(node), iface, end, report)?;
                    }
                    Some(End::Node { node, iface: iface.clone() })
                }
                Some(&Named::Switch(switch)) if iface.is_none() => Some(End::Switch { switch }),
                Some(Named::Switch(_)) => {
                    let message = format!(
                        "end {}: a switch has no interfaces to name",
                        quote(&end.value.to_string())
                    );
                    report.error_with(end.place, message, Some(format!("write {name}")));
                    None
                }
                None => {
                    let help = self.help_for(name, iface.as_deref(), report);
                    report.error_with(
                        end.place,
                        format!("no node or switch {}", quote(name)),
                        help,
                    );
                    None
                }
            },
        }
    }

    /// What several links share and nothing else names is a switch that was forgotten; else a name may be misspelt.
    fn help_for(&self, name: &str, iface: Option<&str>, report: &mut Report) -> Option<String> {
        let other = elsewhere::end(name, iface);
        if other.is_some() {
            return other;
        }
        if iface.is_none() && self.unknown.get(name).is_some_and(|links| *links > 1) {
            return Some(format!(
                "a switch has a line of its own: `{name}: {{}}` below a line `switches:`"
            ));
        }
        let doors = ["internet", "nowhere"];
        report.suggest(name, self.all.iter().copied().chain(doors))
    }

    /// Claims an interface of a node or, without one, of the host.
    fn take(
        &mut self,
        node: Option<usize>,
        iface: &str,
        end: &At<RawEnd>,
        report: &mut Report,
    ) -> Option<()> {
        let line = end.place.line;
        match self.taken.insert((node, iface.to_owned()), line) {
            None => Some(()),
            Some(first) => {
                // The first line stays, so that all later ones point to it.
                self.taken.insert((node, iface.to_owned()), first);
                let message = format!(
                    "interface {} is taken by the link on line {first}",
                    quote(&end.value.to_string())
                );
                report.error(end.place, message);
                None
            }
        }
    }
}

/// Without a blocked port or a controller's entries frames would go round in a loop for ever.
fn check_switches(parts: &Parts, links: &[Resolved<'_>], loops: bool, report: &mut Report) {
    let blocks = |switch: usize| loops && parts.switches[switch].value.blocks();
    let mut sets = Sets::new(parts.switches.len());
    let mut ports = vec![0_usize; parts.switches.len()];
    for link in links {
        report.set_repetition(link.raw.repetition.clone());
        let raw = &link.raw.value;
        if let [End::Switch { switch: a }, End::Switch { switch: b }] = link.ends
            // A link with a port that may block counts as none here: it can open every loop that it
            // closes.
            && !(blocks(a) || blocks(b))
            && !sets.join(a, b)
        {
            let shown = raw.shown();
            let (message, help) = match loops {
                false => (
                    format!("link {shown}: closes a loop of switches"),
                    "leave out one link of the loop, or write `loops: allowed`",
                ),
                true => (
                    format!("link {shown}: closes a loop of switches, none of which blocks"),
                    "write `stp: true` in a bridge, or `fail: secure` in a switch of kind openflow",
                ),
            };
            report.error_with(raw.place, message, Some(help.into()));
        }
        for end in &link.ends {
            let End::Switch { switch } = end else { continue };
            ports[*switch] += 1;
            let body = &parts.switches[*switch].value;
            let Some(most) = body.kind.most_links() else { continue };
            // Exactly one more: the message comes once, not for each further link.
            if ports[*switch] == most + 1 {
                let name = quote(&body.switch.name);
                let help = Some("spread the links over several switches and join those".into());
                report.error_with(
                    raw.place,
                    format!("switch {name} has more than {most} links"),
                    help,
                );
            }
        }
    }
}

/// Checks that next hops that are nodes exist and share a segment, and that outgoing interfaces exist.
pub(crate) fn check_routes(
    parts: &Parts,
    names: &HashMap<String, Named>,
    links: &[Resolved<'_>],
    segment_of: &[usize],
    report: &mut Report,
) {
    // Most labs have no routes by hand, and the sets below cost time in large ones.
    if parts.nodes.iter().all(|n| n.value.routes.is_empty()) {
        return;
    }
    let all = sorted(names);
    let on_segments = Attached::new(parts.nodes.len(), links, segment_of);
    for (index, origin) in parts.nodes.iter().enumerate() {
        report.set_repetition(origin.repetition.clone());
        let routes = origin.value.node.routes.iter().flatten();
        for (route, &place) in routes.zip(&origin.value.routes) {
            if let Some(Via::Node(via)) = &route.via {
                check_next_hop(via, index, place, names, &on_segments, &all, report);
            }
            if let Some(dev) = &route.dev
                && !on_segments.has_interface(index, dev)
            {
                let node = quote(&origin.value.node.name);
                report.error(place, format!("node {node} has no interface {}", quote(dev)));
            }
        }
    }
    report.set_repetition(None);
}

fn check_next_hop(
    via: &str,
    node: usize,
    place: Place,
    names: &HashMap<String, Named>,
    attached: &Attached,
    all: &[&str],
    report: &mut Report,
) {
    match names.get(via) {
        Some(&Named::Node(hop)) if hop == node => {
            report.error(place, format!("next hop {} is the node itself", quote(via)));
        }
        Some(&Named::Node(hop)) => {
            if attached.segments[hop].is_disjoint(&attached.segments[node]) {
                report.error(
                    place,
                    format!("next hop {} shares no segment with this node", quote(via)),
                );
            }
        }
        Some(Named::Switch(_)) => {
            report.error(place, format!("next hop {} is a switch", quote(via)))
        }
        None => {
            let help = report.suggest(via, all.iter().copied());
            report.error_with(place, format!("no node {} for a next hop", quote(via)), help);
        }
    }
}

/// What each node is attached to.
struct Attached {
    segments: Vec<HashSet<usize>>,
    named: Vec<HashSet<String>>,
    /// How many interfaces get the next free `ethN`.
    automatic: Vec<usize>,
}

impl Attached {
    fn new(nodes: usize, links: &[Resolved<'_>], segment_of: &[usize]) -> Attached {
        let mut attached = Attached {
            segments: vec![HashSet::new(); nodes],
            named: vec![HashSet::new(); nodes],
            automatic: vec![0; nodes],
        };
        for (link, &segment) in links.iter().zip(segment_of) {
            for end in &link.ends {
                let End::Node { node, iface } = end else { continue };
                attached.segments[*node].insert(segment);
                match iface {
                    Some(iface) => drop(attached.named[*node].insert(iface.clone())),
                    None => attached.automatic[*node] += 1,
                }
            }
        }
        attached
    }

    /// Automatic names are the lowest `ethN` not used by any link, so they are below the total number.
    fn has_interface(&self, node: usize, name: &str) -> bool {
        let total = self.automatic[node] + self.named[node].len();
        let automatic = |n: usize| self.automatic[node] > 0 && n < total;
        // `parse` takes `01` and `+1`, which no automatic name has.
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| n.to_string() == text);
        self.named[node].contains(name)
            || name.strip_prefix("eth").and_then(number).is_some_and(automatic)
    }
}
