//! Resolves a TARGET: a name for places in a lab and on the host where frames pass.
//!
//! A target is `NODE:IFACE`, `NODE` (all its interfaces), `link:NAME`, `switch:S`, `switch:S/PORT` or
//! `host:IFACE`; `S`, `S/PORT` and a link's `NAME` if no node has that name. [`resolve`] finds them in the plan of a lab;
//! opening shows whether an interface currently exists. A frame that crosses a target passes its points
//! once, except a node with several interfaces, through which a forwarded frame goes twice.

use crate::Plan;
use crate::kinds::CapturedAt;
use crate::plan::{Interface, LinkSlot, PlannedEnd, PlannedLink, PlannedNode};

use crate::lookup::{self, LookupError, Result};

/// The network namespace that an interface is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// That of a node.
    Node(String),
    /// The lab's core, with the ports of kernel bridges.
    Core,
    /// That of the caller.
    Host,
}

/// An interface at which frames can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where it is.
    pub space: Space,
    /// Its name there.
    pub interface: String,
    /// Its name in the lab: `h1:eth0`, `s1/h1:eth0` for a bridge's port, `host:eth1`.
    pub name: String,
    /// The link that it is an end of.
    pub link: Option<String>,
    /// Only frames entering there belong to the target: at the ports of a bridge each frame enters
    /// once, and leaves any number of times.
    pub only_in: bool,
}

/// Which frames of a shared-memory switch belong to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The switch.
    pub switch: String,
    /// The ports; empty for all.
    pub ports: Vec<String>,
}

/// A resolved target, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Interfaces.
    pub points: Vec<Point>,
    /// Ports of shared-memory switches, whose frames the switch copies to a port of the session.
    pub mirrors: Vec<Mirrored>,
}

impl Target {
    fn of(points: Vec<Point>) -> Target {
        Target { points, mirrors: vec![] }
    }

    fn mirror(mirror: Mirrored) -> Target {
        Target { points: vec![], mirrors: vec![mirror] }
    }

    /// Adds the places of another one.
    pub fn add(&mut self, other: Target) {
        self.points.extend(other.points);
        self.mirrors.extend(other.mirrors);
    }
}

/// The interface of the host that a target names, which needs no lab.
pub fn host(text: &str) -> Option<Point> {
    let interface = text.strip_prefix("host:")?;
    Some(Point {
        space: Space::Host,
        interface: interface.to_owned(),
        name: text.to_owned(),
        link: None,
        only_in: false,
    })
}

/// Finds a target in a lab.
///
/// # Errors
/// [`LookupError::NoNode`], [`LookupError::NoLink`], [`LookupError::NoSwitch`]; [`LookupError::Invalid`] for
/// a missing interface or port.
pub fn resolve(plan: &Plan, text: &str) -> Result<Target> {
    // First: no node may be called `host`, and this needs nothing of the lab.
    if let Some(point) = host(text) {
        return Ok(Target::of(vec![point]));
    }
    if let Some(name) = text.strip_prefix("link:") {
        return link(plan, name);
    }
    if let Some(name) = text.strip_prefix("switch:") {
        return match name.split_once('/') {
            Some((name, port)) => switch(plan, name, Some(port)),
            None => switch(plan, name, None),
        };
    }
    let (name, interface) = match text.split_once(':') {
        Some((name, interface)) => (name, Some(interface)),
        None => (text, None),
    };
    let is_switch = |name: &str| plan.switch(name).is_some();
    if plan.node(name).is_none() {
        // The port of a switch reads like a child of a node.
        let (switch, port) = match text.split_once('/') {
            Some((switch, port)) => (switch, Some(port)),
            None => (text, None),
        };
        if is_switch(switch) {
            return self::switch(plan, switch, port);
        }
    }
    // A link's name may begin like the end of one, and is given by both ends, too.
    let is_end = interface.is_some_and(|interface| has_interface(plan, name, interface));
    if plan.node(text).is_none() && !is_end && lookup::find_link(plan, text).is_ok() {
        return link(plan, text);
    }
    let node = &plan.nodes[lookup::slot(plan, name)?];
    let mut target = Target::default();
    for found in node.interfaces.iter().filter(|i| interface.is_none_or(|name| i.name == name)) {
        target.add(of_node(plan, node, found));
    }
    if target == Target::default() {
        let has: Vec<&str> = node.interfaces.iter().map(|i| i.name.as_str()).collect();
        let reason = match (interface, has.is_empty()) {
            (Some(name), false) => format!("no interface {name:?}, it has {}", has.join(", ")),
            _ => "it has no interface".to_owned(),
        };
        return Err(LookupError::Invalid { object: format!("node {name:?}"), reason });
    }
    Ok(target)
}

fn has_interface(plan: &Plan, node: &str, interface: &str) -> bool {
    let node = plan.node(node).map(|at| &plan.nodes[at]);
    node.is_some_and(|node| node.interfaces.iter().any(|i| i.name == interface))
}

/// An interface of a node, or its card that is a port of a switch.
fn of_node(plan: &Plan, node: &PlannedNode, interface: &Interface) -> Target {
    match plan.link_at(interface.link).and_then(|link| of_card(plan, link)) {
        Some(mirror) => Target::mirror(mirror),
        None => Target::of(vec![at_node(plan, node, &interface.name, interface.link)]),
    }
}

/// The port of a link that is the card of a virtual machine by vhost-user.
fn of_card(plan: &Plan, link: &PlannedLink) -> Option<Mirrored> {
    if !plan.is_guests_card(link) {
        return None;
    }
    let (switch, port) = plan.shm_port(link)?;
    Some(Mirrored { switch: switch.name.clone(), ports: vec![port] })
}

/// Every link of a lab, each at one end; shared-memory switches are seen at their links.
pub fn all(plan: &Plan) -> Target {
    let mut all = Target::default();
    for link in &plan.links {
        match of_card(plan, link) {
            Some(mirror) => all.mirrors.push(mirror),
            None => all.points.extend(of_link(plan, link)),
        }
    }
    all
}

/// Every interface of a lab: those of nodes, then the ports of kernel bridges.
pub fn interfaces(plan: &Plan) -> Vec<Point> {
    let nodes = plan.nodes.iter().flat_map(|node| node.interfaces.iter().map(move |i| (node, i)));
    let of_nodes = nodes.flat_map(|(node, i)| of_node(plan, node, i).points);
    let ports = plan.links.iter().flat_map(|link| (0..2).map(move |end| (link, end)));
    let ports = ports.filter_map(|(link, end)| at_port(plan, link, end, false));
    of_nodes.chain(ports).collect()
}

/// The interface of a lab that has this name: `NODE:IFACE`, or `SWITCH/END` for the port of a kernel bridge.
pub fn interface(plan: &Plan, name: &str) -> Option<Point> {
    let points = |text: &str| resolve(plan, text).map_or(vec![], |target| target.points);
    // A child's name has a slash, too.
    let mut found = if name.contains(':') { points(name) } else { vec![] };
    if name.contains('/') {
        found.extend(points(&format!("switch:{name}")));
    }
    found.into_iter().find(|point| point.space != Space::Host && point.name == name)
}

fn at_node(plan: &Plan, node: &PlannedNode, interface: &str, link: LinkSlot) -> Point {
    let shown = plan.link_at(link);
    Point {
        space: Space::Node(node.name.clone()),
        interface: interface.to_owned(),
        name: format!("{}:{interface}", node.name),
        link: shown.map(|l| l.name.clone()),
        only_in: false,
    }
}

fn link(plan: &Plan, name: &str) -> Result<Target> {
    let (at, _) = lookup::find_link(plan, name)?;
    let link = &plan.links[at];
    if let Some(mirror) = of_card(plan, link) {
        return Ok(Target::mirror(mirror));
    }
    let point = of_link(plan, link).ok_or_else(|| LookupError::Invalid {
        object: format!("link {:?}", link.name),
        reason: "nothing of it is an interface of the lab's".to_owned(),
    })?;
    Ok(Target::of(vec![point]))
}

/// One end of a link: preferably a node's.
fn of_link(plan: &Plan, link: &PlannedLink) -> Option<Point> {
    let at = |end: &PlannedEnd| match end {
        PlannedEnd::Node { node, interface } => {
            let node = &plan.nodes[*node];
            let mut point =
                at_node(plan, node, &node.interfaces[*interface].name, LinkSlot::NOT_SHOWN);
            point.link = Some(link.name.clone());
            Some(point)
        }
        _ => None,
    };
    // A node's end shows the frames as programs there send and get them.
    let of_node = link.ends.iter().find_map(at);
    of_node.or_else(|| (0..2).find_map(|end| at_port(plan, link, end, false)))
}

/// The end of a link at a kernel bridge.
fn at_port(plan: &Plan, link: &PlannedLink, end: usize, only_in: bool) -> Option<Point> {
    let PlannedEnd::Port { switch, name, .. } = &link.ends[end] else { return None };
    let switch = &plan.switches[*switch];
    match switch.kind.captured_at() {
        CapturedAt::Ports => {}
        CapturedAt::Mirror => return None,
    }
    let other = plan.end_text(&link.ends[1 - end]);
    Some(Point {
        space: Space::Core,
        interface: name.clone(),
        name: format!("{}/{other}", switch.name),
        link: Some(link.name.clone()),
        only_in,
    })
}

fn switch(plan: &Plan, name: &str, port: Option<&str>) -> Result<Target> {
    let slot = plan.switch(name).ok_or_else(|| LookupError::NoSwitch {
        lab: plan.lab.clone(),
        switch: name.to_owned(),
        hint: String::new(),
    })?;
    if plan.switches[slot].kind.captured_at() == CapturedAt::Mirror {
        let ports = port.map(str::to_owned).into_iter().collect();
        return Ok(Target::mirror(Mirrored { switch: name.to_owned(), ports }));
    }
    let of_switch =
        |end: &PlannedEnd| matches!(end, PlannedEnd::Port { switch, .. } if *switch == slot);
    let ends = plan.links.iter().flat_map(|l| (0..2).map(move |end| (l, end)));
    let ends = ends.filter(|(l, end)| of_switch(&l.ends[*end]));
    let all: Vec<Point> =
        ends.filter_map(|(l, end)| at_port(plan, l, end, port.is_none())).collect();
    let of_port = |p: &Point| port.is_none_or(|port| is_port(p, name, port));
    let points: Vec<Point> = all.iter().filter(|p| of_port(p)).cloned().collect();
    if points.is_empty() {
        let has: Vec<&str> =
            all.iter().filter_map(|p| p.name.split_once('/')).map(|p| p.1).collect();
        let reason = match port {
            Some(port) if !has.is_empty() => format!("no port {port:?}, it has {}", has.join(", ")),
            _ => "it has no port".to_owned(),
        };
        return Err(LookupError::Invalid { object: format!("switch {name:?}"), reason });
    }
    Ok(Target::of(points))
}

/// A port is named by the other end of its link, or by its interface.
fn is_port(point: &Point, switch: &str, port: &str) -> bool {
    point.interface == port
        || point.name.strip_prefix(switch).and_then(|n| n.strip_prefix('/')) == Some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = "name: t\nnodes: {h1: {}, h2: {}, r: {forwarding: true}, alone: {}}\n\
                    switches: {s1: {}, s2: {}, m: {kind: shm}}\n\
                    links: [[h1, s1], {ends: [h2, s1], name: h2-s1}, [s1, s2], [s2, r], [h1, m], [r, m]]\n";
        let lab = crate::parse("t.yaml", text.as_bytes(), "t").unwrap();
        crate::plan::plan(&lab).unwrap()
    }

    fn names(target: Target) -> Vec<String> {
        let points = target.points.into_iter().map(|p| p.name);
        let mirrors = target.mirrors.into_iter().map(|m| format!("{}{:?}", m.switch, m.ports));
        points.chain(mirrors).collect()
    }

    #[test]
    fn targets_are_found_by_all_their_words() {
        let plan = plan();
        for (text, expected) in [
            ("h1:eth0", &["h1:eth0"][..]),
            ("r", &["r:eth0", "r:eth1"]),
            ("link:h1:eth0--s1", &["h1:eth0"]),
            ("link:s1--s2", &["s1/s2"]),
            ("h1:eth0--s1", &["h1:eth0"]),
            ("s1--s2", &["s1/s2"]),
            ("r,m", &["r:eth1"]),
            ("h2-s1", &["h2:eth0"]),
            ("switch:s1", &["s1/h1:eth0", "s1/h2:eth0", "s1/s2"]),
            ("s1", &["s1/h1:eth0", "s1/h2:eth0", "s1/s2"]),
            ("s1/h2:eth0", &["s1/h2:eth0"]),
            ("m", &["m[]"]),
            ("link:h1,s1", &["h1:eth0"]),
            ("switch:s1/h2:eth0", &["s1/h2:eth0"]),
            ("switch:m", &["m[]"]),
            ("switch:m/h1:eth1", &["m[\"h1:eth1\"]"]),
            ("host:eth9", &["host:eth9"]),
        ] {
            assert_eq!(names(resolve(&plan, text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn a_guests_card_is_seen_at_its_port_of_the_switch() {
        let text = "name: t\nnodes:\n  h1: {}\n  g: {kind: vm, kernel: k, vhost-user: true}\n\
                    switches: {s: {}, m: {kind: shm}}\nlinks: [[h1, m], [g, m], [g, s]]\n";
        let lab = crate::parse("t.yaml", text.as_bytes(), "t").unwrap();
        let plan = crate::plan::plan(&lab).unwrap();
        for (text, expected) in [
            ("g:eth0", &["m[\"g:eth0\"]"][..]),
            ("g:eth1", &["g:eth1"]),
            ("g", &["g:eth1", "m[\"g:eth0\"]"]),
            ("link:g:eth0--m", &["m[\"g:eth0\"]"]),
        ] {
            assert_eq!(names(resolve(&plan, text).unwrap()), expected, "{text}");
        }
        assert_eq!(names(all(&plan)), ["h1:eth0", "g:eth1", "m[\"g:eth0\"]"]);
        let interfaces: Vec<String> = interfaces(&plan).into_iter().map(|p| p.name).collect();
        assert_eq!(interfaces, ["h1:eth0", "g:eth1", "s/g:eth1"]);
        assert_eq!(interface(&plan, "g:eth0"), None);
    }

    #[test]
    fn every_interface_is_found_by_its_name() {
        let plan = plan();
        let all: Vec<String> = interfaces(&plan).into_iter().map(|p| p.name).collect();
        assert!(all.contains(&"h1:eth0".to_owned()) && all.contains(&"s1/h1:eth0".to_owned()));
        assert_eq!(all.len(), 5 + 5, "{all:?}");
        for name in &all {
            assert_eq!(interface(&plan, name).map(|p| p.name).as_ref(), Some(name));
        }
        for name in
            ["h1", "h1:eth9", "s1", "s1/", "host:lo", "link:s1--s2", "m/h1:eth1", "", "/", ":"]
        {
            assert_eq!(interface(&plan, name), None, "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let plan = plan();
        for (text, expected) in [
            ("h9", "node \"h9\": not in lab \"t\""),
            ("h1:eth7", "node \"h1\": no interface \"eth7\", it has eth0, eth1"),
            ("alone", "node \"alone\": it has no interface"),
            ("link:x", "link \"x\": not in lab \"t\""),
            ("switch:s9", "switch \"s9\": not in lab \"t\""),
            ("switch:s1/x", "switch \"s1\": no port \"x\", it has h1:eth0, h2:eth0, s2"),
        ] {
            let error = resolve(&plan, text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn all_links_are_seen_once() {
        let points = all(&plan()).points;
        let links: Vec<&str> = points.iter().filter_map(|p| p.link.as_deref()).collect();
        assert_eq!(links.len(), 6, "{links:?}");
        assert!(points.iter().all(|p| !p.only_in));
    }
}
