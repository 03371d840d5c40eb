//! Random labs are changed by hand and saved; a plan of the file is the running one.

use proptest::prelude::*;

use super::{lab_of, lab_within};
use crate::parse::parse;
use crate::plan::tests::property::any_lab;
use crate::plan::tests::simulator::Simulator;
use crate::plan::{
    LinkSlot, NewEnd, NewLink, Plan, PlannedEnd, PlannedNode, Slot, SwitchSlot, plan,
};
use crate::setting::Settings;
use crate::{set_node, write};

/// Everything but identities, of which the order of links is none. Routes count if no address is given by hand: those lead to
/// prefixes of links then, and else to a router's block of them.
fn shown(plan: &Plan, with_routes: bool) -> Vec<String> {
    let node = |node: &PlannedNode| {
        let mut own: Vec<String> = node
            .interfaces
            .iter()
            .map(|of| format!("{} {:?} {} {:?}", of.name, of.mac, of.mtu, of.addresses))
            .collect();
        own.sort();
        let name = |at: usize| node.interfaces[at].name.as_str();
        let hops = |route: &crate::plan::Route| {
            let also = route.also.iter().map(|hop| (Some(hop.via), name(hop.interface)));
            let mut all: Vec<_> =
                std::iter::once((route.via, name(route.interface))).chain(also).collect();
            all.sort();
            format!("{} {all:?}", route.to)
        };
        let mut routes: Vec<String> = node.routes.iter().map(hops).collect();
        routes.retain(|_| with_routes);
        routes.sort();
        format!("{:?} {:?} {own:?} {routes:?} {}", node.spec, node.sysctls, node.internet)
    };
    let link = |link: &crate::plan::PlannedLink| {
        let ends = [0, 1].map(|side| (plan.end_text(&link.ends[side]), numbers(&link.ends[side])));
        format!("{} {ends:?} {} {:?}", link.name, link.mtu, link.impairments)
    };
    let switch = |of: &crate::plan::PlannedSwitch| {
        format!("{} {} {} {:?}", of.name, of.mtu, of.stp, of.kind)
    };
    let nodes = plan.nodes.iter().map(node);
    let all = nodes.chain(plan.switches.iter().map(switch)).chain(plan.links.iter().map(link));
    all.chain([plan.hosts.clone()]).collect()
}

/// Addresses of doors and numbers of ports.
fn numbers(end: &PlannedEnd) -> String {
    match end {
        PlannedEnd::Port { number, .. } => format!("{number:?}"),
        PlannedEnd::Internet { addresses } => format!("{addresses:?}"),
        _ => String::new(),
    }
}

/// One change, by numbers; those that are refused change nothing.
fn change(plan: &mut Plan, (what, a, b): (u8, u16, u16)) {
    let count = plan.nodes.len();
    let slot = Slot::new(usize::from(a) % count.max(1));
    match what % 8 {
        0..=2 => {
            let end = |number: u16| {
                let at = usize::from(number) % (count + plan.switches.len()).max(1);
                match at.checked_sub(count) {
                    None => NewEnd::Node { node: Slot::new(at), iface: None, there: vec![] },
                    Some(at) => NewEnd::Switch(SwitchSlot::new(at)),
                }
            };
            if count == 0 {
                return;
            }
            let mut ends = [end(a), end(b)];
            if let (0, NewEnd::Node { iface, .. }) = (b % 3, &mut ends[0]) {
                *iface = Some(format!("x{a}"));
            }
            let bare = [a.is_multiple_of(7), false];
            let mtu = b.is_multiple_of(5).then_some(1400);
            let macs = [
                a.is_multiple_of(4).then(|| [2, 0, 0, 1, a.to_be_bytes()[0], a.to_be_bytes()[1]]),
                None,
            ]
            .map(|mac| mac.filter(|_| matches!(ends[0], NewEnd::Node { .. })));
            let new = NewLink {
                name: a.is_multiple_of(9).then(|| format!("l{a}")),
                ends,
                addresses: [vec![], vec![]],
                bare,
                macs,
                mtu,
                impairments: Default::default(),
            };
            let _ = plan.add_link(new);
        }
        3 if !plan.links.is_empty() => {
            let _ = plan.remove_link(LinkSlot::new(usize::from(a) % plan.links.len()));
        }
        4 => {
            let node = PlannedNode::fresh(plan, &format!("by-hand-{a}"), None);
            if !plan.is_taken(&node.name) {
                plan.add_node(node);
            }
        }
        5 if count > 0 => {
            let mut settings = Settings::of(&plan.nodes[slot]);
            let (key, value) = [
                ("cpu", "50%"),
                ("memory", "64MiB"),
                ("packets", "7k"),
                ("auto", "true"),
                ("children", "3"),
                ("charge-receive", "true"),
            ][usize::from(b) % 6];
            set_node(&mut settings, key, value).unwrap();
            settings.put(&mut plan.nodes[slot]);
        }
        6 if !plan.links.is_empty() => {
            let at = LinkSlot::new(usize::from(a) % plan.links.len());
            let wanted = &mut plan.links[at].impairments[usize::from(b) % 2];
            crate::impairment::set(wanted, "delay", &format!("{}ms", b % 50)).unwrap();
        }
        _ if count > 0 => {
            plan.remove_nodes(&std::collections::BTreeSet::from([slot]));
            // As after a change by hand of a running lab: routes follow with the next link that comes or goes.
            plan.decide_routes().unwrap();
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_lab_that_was_changed_by_hand_is_saved(
        builder in any_lab(),
        changes in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>()), 0..12),
        keeps_file: bool,
    ) {
        let mut lab = builder.lab;
        for switch in &mut lab.switches {
            switch.stp = true;
        }
        let Ok(mut running) = plan(&lab) else { return Ok(()) };
        changes.into_iter().for_each(|what| change(&mut running, what));
        if !keeps_file {
            running.scheme.as_mut().unwrap().file = None;
        }
        let saved = lab_of(&running).unwrap();
        let routes = !saved.links.iter().flat_map(|link| &link.addresses).any(|all| !all.is_empty());
        let again = plan(&saved).unwrap();
        prop_assert_eq!(shown(&again, routes), shown(&running, routes));
        Simulator::new(&again).check_all();
        let text = write(&saved, "");
        match parse("saved", text.as_bytes(), "saved") {
            Ok(read) => prop_assert_eq!(shown(&plan(&read).unwrap(), true), shown(&again, true), "{}", text),
            // Not every random lab can be in a file.
            Err(errors) => {
                let errors = errors.to_string();
                let known = ["loop of switches", "joins", "itself"];
                prop_assert!(known.iter().any(|words| errors.contains(words)), "{errors}\n{text}");
            }
        }
    }
}

#[test]
fn no_file_is_saved_that_was_not_planned_again() {
    let text = "nodes: {a: {}, b: {}}\nlinks: [[a, b]]\n";
    let mut running = plan(&parse("t", text.as_bytes(), "t").unwrap()).unwrap();
    assert!(lab_within(&running, 0).is_ok());
    running.nodes[0].interfaces[0].mac = [2, 0, 0, 0, 0, 1];
    let refused = lab_within(&running, 0).unwrap_err();
    assert_eq!(refused, "a plan of its file would still be another one");
    assert_eq!(lab_within(&running, 1).unwrap().links[0].macs[0], Some([2, 0, 0, 0, 0, 1]));
}

#[test]
fn what_was_not_changed_is_said_as_in_the_file() {
    let file = "\
name: t
nodes:
  a: {forwarding: true, limits: {cpu: 50%}}
  b: {routes: [{to: default, via: a}]}
links:
  - [a, b]
expect:
  - {reaches: [a, b]}
";
    let running = plan(&parse("f", file.as_bytes(), "f").unwrap()).unwrap();
    assert_eq!(write(&lab_of(&running).unwrap(), ""), file);
    let mut gone = running.clone();
    gone.remove_nodes(&std::collections::BTreeSet::from([Slot::new(1)]));
    let text = write(&lab_of(&gone).unwrap(), "");
    assert_eq!(text, "name: t\nnodes:\n  a: {forwarding: true, limits: {cpu: 50%}}\n");
    assert!(lab_of(&running.subtree(Slot::new(0))).unwrap_err().contains("whole lab"));
}

/// A plan as a version stored it that kept no file, with a node and a link made by hand.
#[test]
fn a_plan_without_its_file_is_saved_by_what_it_has() {
    let stored = include_str!("plan-without-file.json");
    let running: Plan = serde_json::from_str(stored).unwrap();
    assert!(running.scheme.as_ref().unwrap().file.is_none() && running.problem().is_none());
    let text = write(&lab_of(&running).unwrap(), "");
    assert_eq!(
        text,
        "\
name: before
nodes:
  a: {forwarding: true, limits: {memory: 64MiB}, sysctls: {net.ipv4.tcp_ecn: \"1\"}}
  b:
    env: {A: b}
    routes:
      - {to: default, via: 10.205.234.89, dev: eth0}
      - {to: default, via: \"fd23:5120:937a:8f96::1\", dev: eth0}
  c: {}
switches:
  s: {kind: openflow, subnet: [10.9.0.0/24, \"fd0f:cfb9:33e1::/64\"]}
links:
  - [a, b]
  - {ends: [a, s], addresses: {a: [10.9.0.1/24, \"fd0f:cfb9:33e1::1/64\"]}, delay: 1ms}
  - {ends: [b, s], name: by-hand}
"
    );
    let again = plan(&parse("before", text.as_bytes(), "before").unwrap()).unwrap();
    assert_eq!(shown(&again, true), shown(&running, true));
}
