//! What differs in the core namespace: bridges of switches, and their ports.

use std::collections::HashMap;

use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{NodeId, PlannedEnd, PlannedLink};
use netloom_netlink::LinkInfo;

use super::{Differences, Object, is_untouched};
use crate::stage::absent::{Cut, cut_of};
use crate::stage::attach;
use crate::store::state::State;

/// An interface of a link in the core namespace.
pub(in crate::run) struct CorePort {
    pub(in crate::run) index: u32,
    /// The bridge that it is a port of, by index.
    pub(in crate::run) bridge: Option<u32>,
    /// Whether it is down because its link is.
    pub(in crate::run) cut: bool,
}

/// The interfaces of a link in the core namespace.
pub(in crate::run) fn ports_of(state: &State, link: &PlannedLink) -> Vec<CorePort> {
    let form = state.form(link);
    let cut: Vec<u32> = match cut_of(state, link) {
        Cut::Core(ports) if state.down.contains(&link.id) => ports,
        _ => vec![],
    };
    let mut all: Vec<(u32, Option<u32>)> = Vec::new();
    for side in [0, 1] {
        if form.seat(link, side) == Seat::Port {
            let bridge = match &link.ends[side] {
                PlannedEnd::Port { switch, .. } => state.plan.switch_at(*switch),
                _ => None,
            };
            let bridge = bridge.filter(|s| s.kind.is_bridge()).map(|s| s.index);
            all.push((link.port_index(side), bridge));
        }
        match form {
            LinkForm::Wired => all.push((link.hidden_index(side), None)),
            LinkForm::Joined => all.push((link.inner_index(side), None)),
            LinkForm::Beside if state.plan.separate_at(&link.ends[side]).is_some() => {
                all.extend([(link.inner_index(side), None), (link.outer_index(side), None)]);
            }
            _ => {}
        }
    }
    let port = |(index, bridge)| CorePort { index, bridge, cut: cut.contains(&index) };
    all.into_iter().map(port).collect()
}

/// The directions of a link whose wire is a tap: the namespace, and its index there.
pub(in crate::run) fn taps_of(state: &State, link: &PlannedLink) -> Vec<(NodeId, u32)> {
    if state.form(link) == LinkForm::Wired {
        return vec![];
    }
    let impaired = (0..2).filter(|from| !link.impairments[*from].is_none());
    let point = |from: usize| {
        attach::of_direction(state, link, from).map(|at| (at.space, link.hidden_index(from)))
    };
    impaired.filter_map(point).collect()
}

/// Compares the interfaces of the core namespace with the plan.
pub(in crate::run) fn compare(state: &State, links: &[LinkInfo]) -> Differences {
    let mut found = Differences::default();
    let by_index: HashMap<u32, &LinkInfo> = links.iter().map(|l| (l.index, l)).collect();
    let at = |index: u32| by_index.get(&index).copied();
    for switch in state.plan.switches.iter().filter(|switch| switch.kind.is_bridge()) {
        let object = || Object::Switch(switch.name.clone());
        match at(switch.index).filter(|link| link.kind.as_deref() == Some("bridge")) {
            None => found.add(object(), "kind", "bridge, was none".to_owned()),
            Some(link) if !link.up => found.add(object(), "up", "up, was down".to_owned()),
            Some(_) => {}
        }
    }
    for link in state.plan.links.iter().filter(|link| is_untouched(state, link)) {
        let object = || Object::Link(link.id);
        for port in ports_of(state, link) {
            let Some(seen) = at(port.index) else {
                found.lacks_interface(link.id, "of its port");
                continue;
            };
            let name = &seen.name;
            if !seen.up && !port.cut {
                found.add(object(), "up", format!("port {name} up, was down"));
            }
            if seen.mtu != link.mtu {
                let words = format!("port {name} mtu {}, was {}", link.mtu, seen.mtu);
                found.add(object(), "mtu", words);
            }
            if port.bridge.is_some() && port.bridge != seen.master {
                let words = format!("port {name} in its switch, was outside");
                found.add(object(), "ends", words);
            }
        }
        for (_, index) in taps_of(state, link).iter().filter(|(at, _)| *at == NodeId::CORE) {
            if !at(*index).is_some_and(|tap| tap.up) {
                found.lacks_wire(link.id);
            }
        }
    }
    found
}
