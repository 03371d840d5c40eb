//! The lab of a running plan, as a lab file would say it.
//!
//! A plan keeps the file that it was made of ([`Scheme::file`](crate::plan::Scheme::file)). [`lab_of`] takes from there
//! what the plan still has, in the file's words; what was changed by hand is as it is now, and what was made by hand is
//! added. At last it gives by hand what another plan would decide otherwise: names of interfaces and links, prefixes,
//! addresses, hardware addresses, numbers of ports. So a plan of it is the running one, except for identities. A plan of
//! a version that kept no file is read the same way: then everything in it was made by hand.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use crate::difference::same_routes;
use crate::kinds::SwitchKind;
use crate::kinds::openflow::{OpenflowSwitch, TlsFiles};
use crate::lab::{End, Lab, Link, Node, Pin, Pool, RouteSpec, Switch, Via, expect};
use crate::parse::parse;
use crate::plan::names::{Names, names};
use crate::plan::ports::with_number;
use crate::plan::segment::topology;
use crate::plan::{
    Interface, Plan, PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch, Scheme, build,
};
use crate::setting::Settings;

/// How often what differs is given by hand and planned again. Prefixes come first, then addresses in them; both may need a
/// second look.
const ROUNDS: usize = 6;

/// The lab that a plan is of, so that a plan of it is the same, except for identities.
///
/// # Errors
/// The plan is of a part of a lab, or no file can say what it is, in words.
pub fn lab_of(running: &Plan) -> Result<Lab, String> {
    lab_within(running, ROUNDS)
}

/// [`lab_of`], which writes values by hand in at most this many rounds.
fn lab_within(running: &Plan, rounds: usize) -> Result<Lab, String> {
    let none = || "only the plan of a whole lab can become a file".to_owned();
    let scheme = running.scheme.as_ref().ok_or_else(none)?;
    let made = scheme.file.as_deref().and_then(|text| Made::of(text, &running.lab));
    let from = From { running, scheme, made };
    let mut lab = from.lab();
    name_by_hand(&mut lab, running);
    let mut problem = String::new();
    // Once more than there are rounds: what the last one gives is planned again, too.
    for _ in 0..=rounds {
        match build(&lab) {
            Ok(other) if !differs_by_hand(&mut lab, running, scheme, &other) => return Ok(lab),
            Ok(_) => problem = "a plan of its file would still be another one".to_owned(),
            // An address that is given by hand may be one that another end gets by itself: then all are.
            Err(error) => {
                give_all(&mut lab, running, scheme);
                problem = error.to_string();
            }
        }
    }
    Err(problem)
}

/// The file that a plan was made of.
struct Made {
    lab: Lab,
    plan: Plan,
    nodes: HashMap<String, usize>,
    switches: HashMap<String, usize>,
    links: HashMap<String, usize>,
}

impl Made {
    fn of(text: &str, name: &str) -> Option<Made> {
        // A file that this version cannot read any more is no reason to fail: all counts as made by
        // hand.
        let lab = parse("lab", text.as_bytes(), name).ok()?;
        let plan = build(&lab).ok()?;
        let places = |names: &mut dyn Iterator<Item = &String>| {
            names.enumerate().map(|(at, name)| (name.clone(), at)).collect()
        };
        Some(Made {
            nodes: places(&mut plan.nodes.iter().map(|node| &node.spec.name)),
            switches: places(&mut plan.switches.iter().map(|switch| &switch.name)),
            links: places(&mut plan.links.iter().map(|link| &link.name)),
            lab,
            plan,
        })
    }
}

/// What a lab is made from.
struct From<'p> {
    running: &'p Plan,
    scheme: &'p Scheme,
    made: Option<Made>,
}

impl From<'_> {
    fn lab(&self) -> Lab {
        let plan = self.running;
        Lab {
            name: plan.lab.clone(),
            // Of another variant are only addresses, which are given by hand.
            pool: Pool { variant: 0, ..self.scheme.pool },
            routing: self.scheme.routing,
            ecmp: self.scheme.ecmp,
            nodes: plan.nodes.iter().map(|node| self.node(node)).collect(),
            switches: plan.switches.iter().map(|switch| self.switch(switch)).collect(),
            links: plan.links.iter().map(|link| self.link(link)).collect(),
            slices: plan.slices.clone(),
            record: plan.record,
            expect: self.steps(),
            place: self.made.as_ref().map(|made| self.pins(&made.lab.place)).unwrap_or_default(),
            layout: self.made.as_ref().map(|made| made.lab.layout.clone()).unwrap_or_default(),
            numbered_as: BTreeMap::new(),
        }
    }

    fn node(&self, planned: &PlannedNode) -> Node {
        let made = self.made.as_ref();
        let made = made.and_then(|made| Some(&made.lab.nodes[*made.nodes.get(&planned.name)?]));
        let Some(made) = made else { return self.node_by_hand(planned) };
        let mut node = made.clone();
        // An image adds to what the file says; only what can be changed by hand is taken.
        if Settings::of(made) != Settings::of(planned) {
            Settings::of(planned).put(&mut node);
        }
        if made.root != planned.root {
            node.root.clone_from(&planned.root);
        }
        if made.parent != planned.parent {
            node.parent = planned.parent;
        }
        node
    }

    fn node_by_hand(&self, planned: &PlannedNode) -> Node {
        let own = planned.sysctls_of_file().iter().cloned();
        Node {
            spec: Arc::clone(&planned.spec),
            forwarding_given: planned.forwarding.any() && planned.kind.as_router().is_none(),
            sysctls: own.map(|(path, value)| (key_of(path), value)).collect(),
            routes: self.scheme.routed_by_hand.contains(&planned.id).then(|| by_hand(planned)),
        }
    }

    fn switch(&self, planned: &PlannedSwitch) -> Switch {
        let made = self.made.as_ref();
        let at = made.and_then(|made| Some((made, *made.switches.get(&planned.name)?)));
        if let Some((made, at)) = at
            && made.plan.switches[at].kind == planned.kind
        {
            return made.lab.switches[at].clone();
        }
        Switch {
            name: planned.name.clone(),
            subnets: vec![],
            mtu: None,
            stp: planned.stp,
            kind: self.kind(planned),
        }
    }

    /// A kind with no other number than the one that it would get anyway.
    fn kind(&self, planned: &PlannedSwitch) -> SwitchKind {
        let SwitchKind::Openflow(options) = &planned.kind else { return planned.kind.clone() };
        let bare = OpenflowSwitch { datapath: None, ..options.clone() };
        let bare = SwitchKind::Openflow(bare);
        let same = with_number(&self.running.lab, &planned.name, bare.clone()) == planned.kind;
        if same { bare } else { planned.kind.clone() }
    }

    fn link(&self, planned: &PlannedLink) -> Link {
        let ends = [0, 1].map(|side| match &planned.ends[side] {
            PlannedEnd::Node { node, .. } => End::Node { node: node.get(), iface: None },
            PlannedEnd::Port { switch, .. } => End::Switch { switch: switch.get() },
            PlannedEnd::Host { iface } => End::Host { iface: iface.clone() },
            PlannedEnd::Internet { .. } => End::Internet,
            PlannedEnd::Nowhere { .. } => End::Nowhere,
        });
        let plain = Link { impairments: planned.impairments.clone(), ..Link::between(ends) };
        let Some(made) = &self.made else { return plain };
        let Some(at) = made.links.get(&planned.name).copied() else { return plain };
        let old = &made.plan.links[at];
        let texts =
            |plan: &Plan, link: &PlannedLink| [0, 1].map(|at| plan.end_text(&link.ends[at]));
        // A link of the same name that joins other ends was made by hand after the file's was
        // removed.
        if texts(&made.plan, old) != texts(self.running, planned) {
            return plain;
        }
        let mut link = made.lab.links[at].clone();
        for (end, now) in link.ends.iter_mut().zip(plain.ends) {
            match (end, now) {
                (End::Node { node, .. }, End::Node { node: now, .. }) => *node = now,
                (End::Switch { switch }, End::Switch { switch: now }) => *switch = now,
                _ => {}
            }
        }
        if old.impairments != planned.impairments {
            link.impairments = plain.impairments;
        }
        link
    }

    /// Where hosts make what is still there.
    fn pins(&self, pins: &[Pin]) -> Vec<Pin> {
        let nodes = self.running.nodes.iter().filter(|node| node.parent.is_none());
        let nodes = nodes.map(|node| &node.name);
        let names: Vec<&String> =
            nodes.chain(self.running.switches.iter().map(|switch| &switch.name)).collect();
        let stays = |pin: &&Pin| names.iter().any(|name| pin.fits(name));
        pins.iter().filter(stays).cloned().collect()
    }

    /// The steps of the file whose nodes are still there.
    fn steps(&self) -> Vec<expect::Step> {
        let Some(made) = &self.made else { return vec![] };
        let here: HashSet<&str> =
            self.running.nodes.iter().map(|node| node.name.as_str()).collect();
        let gone = |name: &str| made.nodes.contains_key(name) && !here.contains(name);
        let stays = |step: &&expect::Step| !step.what.names().into_iter().any(gone);
        made.lab.expect.iter().filter(stays).cloned().collect()
    }
}

/// The key of a lab file for a path below `/proc/sys/`: with dots where no part has one.
fn key_of(path: String) -> String {
    if path.contains('.') { path } else { path.replace('/', ".") }
}

/// Routes as they were given by hand.
fn by_hand(node: &PlannedNode) -> Vec<RouteSpec> {
    let route = |route: &crate::plan::Route| RouteSpec {
        // By a next hop the default route is that of its family.
        to: Some(route.to).filter(|to| to.prefix_len() > 0 || route.via.is_none()),
        via: route.via.map(Via::Address),
        dev: node.interfaces.get(route.interface).map(|own| own.name.clone()),
    };
    node.routes.iter().map(route).collect()
}

fn interface<'p>(plan: &'p Plan, end: &PlannedEnd) -> Option<&'p Interface> {
    let PlannedEnd::Node { node, interface } = end else { return None };
    plan.node_at(*node)?.interfaces.get(*interface)
}

/// Names interfaces where others would be chosen, and then links, whose names follow from those.
fn name_by_hand(lab: &mut Lab, running: &Plan) {
    for round in 0..ROUNDS {
        let names = names(lab);
        // Each name by hand moves those after it, so that at last all are.
        if name_interfaces(lab, running, &names, round >= ROUNDS / 2) {
            continue;
        }
        let mut differs = false;
        for (at, (link, planned)) in lab.links.iter_mut().zip(&running.links).enumerate() {
            // An automatic name is not always one that a file may give.
            let can_be = crate::naming::link_name_problem(&planned.name).is_none();
            if names.links[at] != planned.name && can_be {
                link.name = Some(planned.name.clone());
                differs = true;
            }
        }
        if !differs {
            return;
        }
    }
}

/// Names interfaces where others would be chosen, or all; returns whether there was one.
fn name_interfaces(lab: &mut Lab, running: &Plan, names: &Names, all: bool) -> bool {
    let mut differs = false;
    for (at, (link, planned)) in lab.links.iter_mut().zip(&running.links).enumerate() {
        for side in [0, 1] {
            let End::Node { iface, .. } = &mut link.ends[side] else { continue };
            let Some(own) = interface(running, &planned.ends[side]) else { continue };
            if all || names.interfaces[at][side].as_ref() != Some(&own.name) {
                differs |= iface.as_ref() != Some(&own.name);
                *iface = Some(own.name.clone());
            }
        }
    }
    differs
}

/// The addresses of an end of a link, if it can have some.
fn addresses<'p>(plan: &'p Plan, end: &'p PlannedEnd) -> Option<&'p Vec<ipnet::IpNet>> {
    match end {
        PlannedEnd::Internet { addresses } => Some(addresses),
        end => interface(plan, end).map(|own| &own.addresses),
    }
}

/// Gives by hand what another plan of the lab has otherwise; returns whether there was something.
fn differs_by_hand(lab: &mut Lab, running: &Plan, scheme: &Scheme, other: &Plan) -> bool {
    let mut given = give_prefixes(lab, scheme, Some(other));
    for at in 0..lab.links.len() {
        let (now, then) = (&running.links[at], &other.links[at]);
        let link = &mut lab.links[at];
        if now.mtu != then.mtu && link.mtu != Some(now.mtu) {
            link.mtu = Some(now.mtu);
            given = true;
        }
        for side in [0, 1] {
            let ends = (&now.ends[side], &then.ends[side]);
            if let (Some(own), Some(others)) =
                (interface(running, ends.0), interface(other, ends.1))
                && own.mac != others.mac
            {
                link.macs[side] = Some(own.mac);
                given = true;
            }
            let number = |end: &PlannedEnd| match end {
                PlannedEnd::Port { number, .. } => *number,
                _ => None,
            };
            if number(ends.0) != number(ends.1) {
                link.numbers[side] = number(ends.0);
                given = true;
            }
        }
    }
    if given {
        // Addresses depend on the prefixes above, so they are compared when those have settled.
        return true;
    }
    for at in 0..lab.links.len() {
        for side in [0, 1] {
            let (now, then) = (&running.links[at].ends[side], &other.links[at].ends[side]);
            if addresses(running, now) != addresses(other, then) {
                give_addresses(&mut lab.links[at], running, now, side);
                given = true;
            }
        }
    }
    given || route_by_hand(lab, running, scheme, other)
}

/// Routes that were given by hand, where the file's words lead elsewhere now.
fn route_by_hand(lab: &mut Lab, running: &Plan, scheme: &Scheme, other: &Plan) -> bool {
    let mut given = false;
    for (node, (now, then)) in lab.nodes.iter_mut().zip(running.nodes.iter().zip(&other.nodes)) {
        let routes = Some(by_hand(now));
        if scheme.routed_by_hand.contains(&now.id)
            && !same_routes(now, then)
            && node.routes != routes
        {
            node.routes = routes;
            given = true;
        }
    }
    given
}

fn give_addresses(link: &mut Link, running: &Plan, end: &PlannedEnd, side: usize) {
    let Some(own) = addresses(running, end) else { return };
    link.bare[side] = own.is_empty();
    link.addresses[side].clone_from(own);
}

/// Prefixes of switches, of the first one of each segment; of those alone that differ, if there is another plan.
fn give_prefixes(lab: &mut Lab, scheme: &Scheme, other: Option<&Plan>) -> bool {
    let mut given = false;
    for segment in topology(lab).segments {
        let Some(first) = segment.switches.first().copied() else { continue };
        let name = &lab.switches[first].name;
        let Some(wanted) = scheme.switches.get(name) else { continue };
        let then = other.and_then(|plan| plan.scheme.as_ref()?.switches.get(name));
        if then != Some(wanted) && lab.switches[first].subnets != *wanted {
            for switch in segment.switches {
                // One switch of the segment says it for all.
                lab.switches[switch].subnets.clear();
            }
            lab.switches[first].subnets.clone_from(wanted);
            given = true;
        }
    }
    given
}

/// Gives all prefixes and addresses by hand.
fn give_all(lab: &mut Lab, running: &Plan, scheme: &Scheme) {
    give_prefixes(lab, scheme, None);
    for (link, planned) in lab.links.iter_mut().zip(&running.links) {
        // Both ends have their addresses by hand now, and a prefix beside those could contradict
        // them.
        link.subnets.clear();
        for side in [0, 1] {
            give_addresses(link, running, &planned.ends[side], side);
        }
    }
}

impl Plan {
    /// Makes paths of the host absolute, also in the file that it keeps; `base` is the folder of the lab file.
    pub fn make_absolute(&mut self, base: &Path) {
        let tls = self.switches.iter_mut().filter_map(|switch| switch.kind.tls_mut());
        let tls = tls.chain(self.slices.iter_mut().filter_map(|slice| slice.tls.as_mut()));
        let mut any = false;
        for path in tls.flat_map(TlsFiles::paths_mut) {
            *path = base.join(&*path);
            any = true;
        }
        for node in self.nodes.iter_mut().filter(|node| node.has_paths()) {
            node.make_absolute(base);
            any = true;
        }
        if let Some(file) = self.scheme.as_mut().and_then(|scheme| scheme.file.as_mut())
            && any
            && let Some(text) = absolute_text(file, &self.lab, base)
        {
            *file = text.into();
        }
    }
}

/// The text of a lab file with its paths made absolute; `None` if there are none, or it cannot be read.
fn absolute_text(text: &str, name: &str, base: &Path) -> Option<String> {
    let mut lab = parse("lab", text.as_bytes(), name).ok().filter(Lab::has_paths)?;
    lab.make_absolute(base);
    Some(crate::write(&lab, ""))
}

#[cfg(test)]
mod tests;
