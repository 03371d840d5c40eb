//! Adding and removing nodes, and the view from inside a node.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::build_lab::{LabBuilder, two_sites};
use crate::plan::{LinkSlot, NodeId, Plan, PlannedEnd, PlannedNode, Slot, plan};

/// Tenants `t0` and `t1` with children, grandchildren, links inside and out of them.
fn tenants() -> LabBuilder {
    let mut lab = LabBuilder::new();
    lab.router("r").switch("s");
    for tenant in ["t0", "t1"] {
        lab.child(tenant, Some(4));
        lab.child(&format!("{tenant}/a"), Some(2)).child(&format!("{tenant}/a/x"), None);
        lab.child(&format!("{tenant}/b"), None);
        lab.link("r", &format!("{tenant}/a")).link(&format!("{tenant}/a"), &format!("{tenant}/b"));
        lab.link(&format!("{tenant}/a"), &format!("{tenant}/b"));
        lab.link(&format!("{tenant}/a/x:up"), &format!("{tenant}/b"));
        lab.link(&format!("{tenant}/b"), "s").link(tenant, "s");
    }
    lab
}

fn tenant_plan() -> Plan {
    plan(&tenants().lab).unwrap()
}

/// Every index is valid, and both sides of each relation agree.
fn check(plan: &Plan) {
    let mut ids = HashSet::new();
    let mut names = HashSet::new();
    for (slot, node) in plan.slots().zip(&plan.nodes) {
        assert!(ids.insert(node.id) && node.id < plan.next_id, "id {}", node.id);
        assert!(names.insert(&node.name), "{}", node.name);
        assert!(node.parent.is_none_or(|p| p < slot), "{}: its parent", node.name);
        let parent = node.parent.map(|p| plan.nodes[p].name.as_str());
        assert_eq!(parent, node.name.rsplit_once('/').map(|(p, _)| p), "{}", node.name);
        for (i, interface) in node.interfaces.iter().enumerate() {
            let this = PlannedEnd::Node { node: slot, interface: i };
            let shown = interface.link != LinkSlot::NOT_SHOWN;
            assert!(!shown || plan.links[interface.link].ends.contains(&this), "{}", node.name);
            for address in &interface.addresses {
                let line = format!("{}\t", address.addr());
                assert!(plan.hosts.contains(&line) || i > 0, "{line}");
            }
        }
        assert!(node.routes.iter().all(|r| r.interface < node.interfaces.len()), "{}", node.name);
    }
    for (index, link) in plan.links.iter().enumerate() {
        for end in &link.ends {
            match end {
                PlannedEnd::Node { node, interface } => {
                    assert_eq!(plan.nodes[*node].interfaces[*interface].link.get(), index);
                }
                PlannedEnd::Port { switch, .. } => assert!(plan.switch_at(*switch).is_some()),
                _ => {}
            }
        }
    }
}

#[test]
fn children_are_called_as_in_dns_and_their_names_reach_no_kernel_object() {
    let plan = tenant_plan();
    check(&plan);
    let x = &plan.nodes[plan.node("t0/a/x").unwrap()];
    assert_eq!(x.host_name(), "x");
    assert!(plan.hosts.contains(&format!("{}\tx.a.t0\n", x.ipv4().unwrap())), "{}", plan.hosts);
    assert!(plan.link("t0/a:eth1--t0/b:eth0").is_some());
    assert!(plan.link("t0/a:eth2--t0/b:eth1").is_some());
    let ports = plan.links.iter().flat_map(|l| &l.ends).filter_map(|end| match end {
        PlannedEnd::Port { name, .. } => Some(name.as_str()),
        _ => None,
    });
    assert_eq!(ports.collect::<Vec<_>>(), ["t0-b-eth3", "t0-eth0", "t1-b-eth3", "t1-eth0"]);
}

#[test]
fn a_node_takes_its_links_its_routes_and_who_lives_in_it() {
    let mut plan = tenant_plan();
    let digest = plan.digest.clone();
    let routes = plan.nodes[0].routes.len();
    let t0 = plan.node("t0").unwrap();
    assert_eq!(plan.descendants(t0).len(), 3);
    plan.remove_nodes(&BTreeSet::from([t0]));
    check(&plan);
    let names: Vec<&str> = plan.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["r", "t1", "t1/a", "t1/a/x", "t1/b"]);
    assert_eq!((plan.links.len(), plan.nodes[0].interfaces.len()), (6, 1));
    assert_eq!(plan.nodes[0].interfaces[0].name, "eth1");
    assert!(plan.nodes[0].routes.len() <= routes && !plan.hosts.contains("t0"));
    assert_eq!(plan.digest, digest);
    assert_eq!(plan.add_node(PlannedNode::fresh(&plan, "new", None)), Slot::new(5));
    assert_eq!((plan.nodes[5].id, plan.next_id), (NodeId::new(9), NodeId::new(10)));
    check(&plan);
}

#[test]
fn routes_over_what_went_go_and_the_others_follow() {
    let mut plan = plan(&two_sites()).unwrap();
    let r1 = plan.node("r1").unwrap();
    let near = plan.nodes[r1].routes.len();
    assert!(near > 0 && plan.nodes[r1].routes.iter().all(|r| r.interface == 1));
    let h1 = plan.node("h1").unwrap();
    plan.remove_nodes(&BTreeSet::from([h1]));
    check(&plan);
    let r1 = plan.node("r1").unwrap();
    assert_eq!(plan.nodes[r1].routes.len(), near);
    let r2 = plan.node("r2").unwrap();
    plan.remove_nodes(&BTreeSet::from([r2, Slot::new(77)]));
    check(&plan);
    let r1 = plan.node("r1").unwrap();
    assert!(plan.nodes[r1].routes.is_empty() && plan.nodes[r1].interfaces.len() == 1);
}

#[test]
fn routes_to_what_is_deleted_are_decided_again() {
    let mut plan = plan(&two_sites()).unwrap();
    let gone = BTreeSet::from([plan.node("web").unwrap()]);
    let near = |plan: &Plan| plan.nodes[plan.node("r1").unwrap()].routes.len();
    let before = near(&plan);
    let mut kept = plan.clone();
    kept.remove_nodes(&gone);
    assert_eq!(near(&kept), before);
    plan.delete_nodes(&gone);
    check(&plan);
    assert!(near(&plan) < before, "{before}");
    let same = plan.clone();
    plan.delete_nodes(&BTreeSet::from([Slot::new(77)]));
    assert_eq!(plan, same);
    // A plan that does not know how its routes were decided keeps them.
    let mut old = kept.clone();
    old.scheme = None;
    let routes = near(&old);
    old.delete_nodes(&BTreeSet::from([old.node("h2").unwrap()]));
    assert_eq!((near(&old), old.node("h2")), (routes, None));
}

#[test]
fn room_is_looked_for_in_all_nodes_around() {
    let mut plan = tenant_plan();
    let at = |plan: &Plan, name: &str| plan.node(name).unwrap();
    let refusal = |plan: &Plan, name: &str| plan.room_for_child(at(plan, name)).unwrap_err();
    assert_eq!(refusal(&plan, "r"), "node \"r\" has no `children`: no node can be made in it");
    let a = at(&plan, "t0/a");
    assert_eq!(plan.room_for_child(a), Ok(()));
    plan.add_node(PlannedNode::fresh(&plan, "t0/a/y", Some(a)));
    assert_eq!(refusal(&plan, "t0/a"), "node \"t0/a\" has 2 nodes in it; its limit is 2");
    plan.nodes[a].children = Some(3);
    assert_eq!(refusal(&plan, "t0/a"), "node \"t0\" has 4 nodes in it; its limit is 4");
    assert!(plan.room_for_child(Slot::new(99)).is_err());
    let mut deep = Plan::default();
    for depth in 1..=8 {
        let name = vec!["n"; depth].join("/");
        let mut node = PlannedNode::fresh(&deep, &name, depth.checked_sub(2).map(Slot::new));
        node.children = Some(100);
        deep.add_node(node);
    }
    assert_eq!(deep.room_for_child(Slot::new(6)), Ok(()));
    assert_eq!(
        deep.room_for_child(Slot::new(7)).unwrap_err(),
        "nodes live in each other 8 deep at most"
    );
}

#[test]
fn from_inside_only_what_lies_inside_is_seen() {
    let mut whole = tenant_plan();
    let twin = whole.links.len() - 4;
    whole.links[twin].name.push_str("#2");
    let inside = whole.subtree(whole.node("t1").unwrap());
    check(&inside);
    let names: Vec<&str> = inside.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["a", "a/x", "b"]);
    let links: Vec<&str> = inside.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(links, ["a:eth1--b:eth0", "a:eth2--b:eth1#2", "a/x:up--b:eth2"]);
    assert_eq!(inside.nodes[0].interfaces[0].link, LinkSlot::NOT_SHOWN);
    assert_eq!(inside.nodes[0].interfaces[0].name, "eth0");
    assert_eq!((inside.lab.as_str(), inside.switches.len()), ("t1", 0));
    let x = inside.nodes[1].ipv4().unwrap();
    assert!(inside.hosts.contains(&format!("{x}\tx.a\n")), "{}", inside.hosts);
    let json = serde_json::to_string(&inside).unwrap();
    assert!(!json.contains("t1/") && !json.contains("t0") && json.contains("\"link\":null"));
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), inside);
    assert!(inside.ways_back().is_empty());
    assert_eq!(whole.subtree(Slot::new(99)), Plan::default());
    assert_eq!(whole.subtree(whole.node("r").unwrap()).nodes, []);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_global_rejects: 1 << 20, ..ProptestConfig::default() })]

    #[test]
    fn indexes_stay_valid_and_ids_are_not_used_again(
        steps in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u16>(), 1..4)), 1..30),
    ) {
        let mut plan = tenant_plan();
        let mut seen: HashSet<NodeId> = plan.nodes.iter().map(|n| n.id).collect();
        for (number, (add, picks)) in steps.into_iter().enumerate() {
            let pick = |n: u16| (!plan.nodes.is_empty()).then(|| Slot::new(usize::from(n) % plan.nodes.len()));
            if add {
                let parent = pick(picks[0]).filter(|p| plan.room_for_child(*p).is_ok());
                let name = match parent {
                    Some(parent) => format!("{}/n{number}", plan.nodes[parent].name),
                    None => format!("n{number}"),
                };
                let mut node = PlannedNode::fresh(&plan, &name, parent);
                node.children = Some(u32::from(picks[0] % 5));
                let promised = node.id;
                let index = plan.add_node(node);
                prop_assert_eq!(plan.nodes[index].id, promised);
                prop_assert!(seen.insert(promised), "id {}", promised);
            } else {
                let gone: BTreeSet<Slot> = picks.into_iter().filter_map(pick).collect();
                let names: Vec<String> = gone.iter().map(|i| plan.nodes[*i].name.clone()).collect();
                plan.remove_nodes(&gone);
                prop_assert!(names.iter().all(|name| plan.node(name).is_none()));
            }
            check(&plan);
            for node in plan.slots() {
                check(&plan.subtree(node));
            }
        }
    }
}
