//! Adding and removing links while a lab runs.

use proptest::prelude::*;

use super::build_lab::{LabBuilder, two_sites};
use super::property::{add_link, any_lab, joins_switches};
use super::simulator::Simulator;
use crate::lab::{End, Lab};
use crate::plan::{LinkSlot, NewEnd, NewLink, Plan, PlannedNode, Slot, SwitchSlot, plan};

/// The same link for a running lab; `None` for those that only a file can have.
fn as_new(lab: &Lab) -> Option<NewLink> {
    let link = lab.links.last()?;
    let end = |end: &End| match end {
        End::Node { node, iface } => {
            Some(NewEnd::Node { node: Slot::new(*node), iface: iface.clone(), there: vec![] })
        }
        End::Switch { switch } => Some(NewEnd::Switch(SwitchSlot::new(*switch))),
        End::Nowhere => Some(NewEnd::Nowhere),
        End::Host { .. } | End::Internet => None,
    };
    Some(NewLink {
        name: link.name.clone(),
        ends: [end(&link.ends[0])?, end(&link.ends[1])?],
        addresses: link.addresses.clone(),
        bare: link.bare,
        macs: [None; 2],
        mtu: link.mtu,
        impairments: link.impairments.clone(),
    })
}

fn joins_itself(lab: &Lab) -> bool {
    matches!(lab.links.last().map(|l| &l.ends),
        Some([End::Node { node: a, .. }, End::Node { node: b, .. }]) if a == b)
}

/// A link between two nodes or a node and a switch, by name.
fn between(plan: &Plan, a: &str, b: &str) -> NewLink {
    let end = |name: &str| match plan.node(name) {
        Some(node) => NewEnd::Node { node, iface: None, there: vec![] },
        None => NewEnd::Switch(plan.switch(name).unwrap()),
    };
    NewLink {
        name: None,
        ends: [end(a), end(b)],
        addresses: [vec![], vec![]],
        bare: [false; 2],
        macs: [None; 2],
        mtu: None,
        impairments: Default::default(),
    }
}

/// Links and nodes without the digest, which stays the first plan's.
fn content(mut plan: Plan) -> Plan {
    plan.digest.clear();
    plan.scheme.iter_mut().for_each(|scheme| scheme.file = None);
    for node in &mut plan.nodes {
        node.routes.sort_by_key(|r| (r.to, r.via, r.interface));
    }
    plan
}

#[test]
fn a_new_node_is_linked_to_a_switch_and_finds_its_way() {
    let mut plan = plan(&two_sites()).unwrap();
    let h9 = plan.add_node(PlannedNode::fresh(&plan, "h9", None));
    let digest = plan.digest.clone();
    let link = plan.add_link(between(&plan, "h9", "s1")).unwrap();
    assert_eq!(plan.links[link].name, "h9:eth0--s1");
    let own = &plan.nodes[h9].interfaces[0];
    let h1 = &plan.nodes[plan.node("h1").unwrap()].interfaces[0];
    let prefixes = |i: &crate::plan::Interface| -> Vec<_> {
        i.addresses.iter().map(ipnet::IpNet::trunc).collect()
    };
    assert_eq!(prefixes(own), prefixes(h1));
    assert!(plan.hosts.contains("\th9\n"), "{}", plan.hosts);
    assert_eq!(plan.nodes[h9].routes.len(), 2, "a default route of each family");
    assert_eq!(plan.digest, digest);
    Simulator::new(&plan).check_all();
}

#[test]
fn what_cannot_be_linked_is_refused_and_changes_nothing() {
    let mut lab = LabBuilder::new();
    lab.host("a").host("b").switch("s").switch("t").link("a", "b").link("s", "t").link("a", "s");
    lab.link("b", "internet");
    let mut plan = plan(&lab.lab).unwrap();
    let before = plan.clone();
    let mut refused = |change: &dyn Fn(&mut NewLink), words: &str| {
        let mut new = between(&plan, "a", "b");
        change(&mut new);
        let error = plan.add_link(new).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert_eq!(plan, before);
    };
    let node = |iface: &str, there: Vec<(String, u32)>| NewEnd::Node {
        node: Slot::new(0),
        iface: Some(iface.into()),
        there,
    };
    refused(&|new| new.name = Some("a:eth0--b:eth0".into()), "already");
    refused(&|new| new.name = Some("a b".into()), "a b");
    refused(&|new| new.ends[1] = new.ends[0].clone(), "to itself");
    refused(&|new| new.ends = [0, 1].map(|at| NewEnd::Switch(SwitchSlot::new(at))), "two switches");
    refused(&|new| new.ends[0] = node("eth0", vec![]), "\"eth0\" already");
    refused(&|new| new.ends[0] = node("x", vec![("x".into(), 9)]), "\"x\" already");
    refused(&|new| new.ends[0] = node("a/b", vec![]), "a/b");
    let taken = plan_address(&before, "a");
    refused(&|new| new.addresses[0] = vec![taken], "a:eth0");
    for (link, words) in [(1, "two switches"), (3, "a door"), (9, "no such link")] {
        let error = plan.remove_link(LinkSlot::new(link)).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert_eq!(plan, before);
    }
    plan.scheme = None;
    assert!(plan.add_link(between(&before, "a", "b")).unwrap_err().contains("earlier version"));
}

fn plan_address(plan: &Plan, node: &str) -> ipnet::IpNet {
    plan.nodes[plan.node(node).unwrap()].interfaces[0].addresses[0]
}

#[test]
fn indexes_and_names_of_what_is_there_are_left_alone() {
    let mut plan = plan(&two_sites()).unwrap();
    let mut new = between(&plan, "h1", "web");
    let there = vec![("eth1".to_owned(), 7), ("lo".to_owned(), 1)];
    new.ends[0] = NewEnd::Node { node: plan.node("h1").unwrap(), iface: None, there };
    let link = plan.add_link(new).unwrap();
    assert_eq!(plan.links[link].name, "h1:eth2--web:eth1");
    assert_eq!(plan.nodes[0].interfaces[1].index, 8);
    let id = plan.links[link].id;
    plan.remove_link(link).unwrap();
    let again = plan.add_link(between(&plan, "h1", "web")).unwrap();
    assert!(plan.links[again].id > id, "an id is never used again");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_global_rejects: 1 << 20, ..ProptestConfig::default() })]

    #[test]
    fn a_link_that_is_made_is_as_one_at_the_end_of_the_file(
        lab in any_lab(), a in any::<u16>(), b in any::<u16>(),
    ) {
        let mut more = lab.clone();
        add_link(&mut more, a, b, 0);
        prop_assume!(more.lab.links.len() > lab.lab.links.len());
        prop_assume!(!joins_switches(&more.lab) && !joins_itself(&more.lab));
        let new = as_new(&more.lab).unwrap();
        let mut live = plan(&lab.lab).unwrap();
        let before = live.clone();
        live.add_link(new).unwrap();
        Simulator::new(&live).check_all();
        prop_assert_eq!(content(live.clone()), content(plan(&more.lab).unwrap()));
        // After removing it everything is as before, except the scheme.
        let last = live.links.len() - 1;
        live.remove_link(LinkSlot::new(last)).unwrap();
        live.scheme = before.scheme.clone();
        prop_assert_eq!(content(live), content(before));
    }
}
