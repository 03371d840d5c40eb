//! Labs of known shapes, every pair of addresses tried.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::build_lab::{LabBuilder, two_sites};
use super::simulator::{Place, Simulator};
use crate::forwarding::Forwarding;
use crate::lab::Lab;
use crate::plan::{Neighbours, Plan, PlanError, plan};

/// A torus of routers.
fn torus(side: usize) -> Lab {
    let mut lab = LabBuilder::new();
    let name = |x: usize, y: usize| format!("r{}-{}", x % side, y % side);
    let all = || (0..side).flat_map(|x| (0..side).map(move |y| (x, y)));
    all().for_each(|(x, y)| {
        lab.router(&name(x, y));
    });
    for (x, y) in all() {
        lab.link(&name(x, y), &name(x + 1, y)).link(&name(x, y), &name(x, y + 1));
    }
    lab.lab
}

/// A ring of hosts with chords: of each node's four links it owns two.
fn chords(nodes: usize) -> Lab {
    let mut lab = LabBuilder::new();
    let name = |node: usize| format!("n{}", node % nodes);
    (0..nodes).for_each(|node| {
        lab.host(&name(node));
    });
    for step in [1, nodes / 2 - 7] {
        (0..nodes).for_each(|node| {
            lab.link(&name(node), &name(node + step));
        });
    }
    lab.lab
}

/// More owners of links than the pool has blocks: all get addresses, and those with a block keep what they have without the
/// others.
#[test]
fn ten_thousand_owners_of_links_have_addresses() {
    let all = plan(&chords(10_000)).unwrap();
    let prefixes: HashSet<_> = all
        .nodes
        .iter()
        .flat_map(|node| &node.interfaces)
        .flat_map(|interface| &interface.addresses)
        .map(IpNet::trunc)
        .collect();
    assert_eq!((all.links.len(), prefixes.len()), (20_000, 40_000), "a prefix a link and family");
    let mut fewer = chords(10_000);
    fewer.links.truncate(8_000);
    let fewer = plan(&fewer).unwrap();
    for (one, other) in all.nodes.iter().zip(&fewer.nodes).take(8_000) {
        assert_eq!(one.interfaces[0].addresses, other.interfaces[0].addresses, "{}", one.name);
    }
}

/// The fat tree of Al-Fares et al. (SIGCOMM 2008) with k ports a switch, all of them routers.
fn fat_tree(k: usize) -> Lab {
    let mut lab = LabBuilder::new();
    let half = k / 2;
    for core in 0..half * half {
        lab.router(&format!("c{core}"));
    }
    for pod in 0..k {
        for i in 0..half {
            lab.router(&format!("a{pod}-{i}")).router(&format!("e{pod}-{i}"));
        }
        for i in 0..half {
            for j in 0..half {
                lab.link(&format!("c{}", i * half + j), &format!("a{pod}-{i}"));
                lab.link(&format!("a{pod}-{i}"), &format!("e{pod}-{j}"));
                lab.host(&format!("h{pod}-{i}-{j}"));
                lab.link(&format!("e{pod}-{i}"), &format!("h{pod}-{i}-{j}"));
            }
        }
    }
    lab.lab
}

#[test]
fn two_sites_are_joined() {
    let plan = plan(&two_sites()).unwrap();
    let simulator = Simulator::new(&plan);
    // Every node reaches all seven interfaces in both families.
    assert_eq!(simulator.check_all(), 5 * 7 * 2);
    let web = plan.nodes[4].ipv4().unwrap().into();
    assert_eq!(simulator.walk(Place::Node(0), web), Ok(3));
}

#[test]
fn the_torus_takes_short_paths() {
    let plan = plan(&torus(10)).unwrap();
    let simulator = Simulator::new(&plan);
    assert_eq!(simulator.check_all(), 100 * 400 * 2);
    for (index, node) in plan.nodes.iter().enumerate() {
        // 99 other owners, two families.
        assert_eq!(node.routes.len(), 2 * 99);
        let (x, y) = (index / 10, index % 10);
        let away = |d: usize| d.min(10 - d);
        // The address may lie in the block of a neighbour that is one farther away, and then
        // comes back by one.
        let to = node.ipv6().unwrap().into();
        let hops = simulator.walk(Place::Node(0), to).unwrap();
        let far = away(x) + away(y);
        assert!(hops <= far + 2, "{}: {hops} hops, {far} away", node.name);
    }
}

#[test]
fn the_fat_tree_is_connected() {
    let plan = plan(&fat_tree(4)).unwrap();
    let simulator = Simulator::new(&plan);
    assert_eq!(plan.nodes.len(), 36);
    assert_eq!(simulator.check_all(), 36 * 2 * 48 * 2);
    let last = plan.nodes[plan.node("h3-1-1").unwrap()].ipv4().unwrap().into();
    assert_eq!(simulator.walk(Place::Node(plan.node("h0-0-0").unwrap().get()), last), Ok(6));
}

/// How many next hops a node's longest route to an address has.
fn ways(plan: &Plan, node: &str, to: IpAddr) -> usize {
    let routes = &plan.nodes[plan.node(node).unwrap()].routes;
    let best = routes.iter().filter(|r| r.to.contains(&to)).max_by_key(|r| r.to.prefix_len());
    best.map_or(0, |route| 1 + route.also.len())
}

#[test]
fn all_paths_of_a_fat_tree_are_used() {
    let mut lab = fat_tree(8);
    let plan_of = |lab: &Lab| plan(lab).unwrap();
    let several = plan_of(&lab);
    let far = several.nodes[several.node("h3-1-1").unwrap()].clone();
    for to in [IpAddr::from(far.ipv4().unwrap()), far.ipv6().unwrap().into()] {
        // To all aggregation routers of the pod, from each to all of its core routers, down by one.
        assert_eq!(ways(&several, "e0-0", to), 4);
        assert_eq!(ways(&several, "a0-0", to), 4);
        assert_eq!(ways(&several, "c0", to), 1);
        assert_eq!(ways(&several, "a3-0", to), 1);
        assert_eq!(ways(&several, "h0-0-0", to), 1);
    }
    let seed = |node: &str| {
        let node = &several.nodes[several.node(node).unwrap()];
        let found = node.sysctls.iter().find(|(path, _)| path.ends_with("multipath_hash_seed"));
        found.map(|(_, seed)| seed.parse::<u32>().unwrap())
    };
    assert!(seed("e0-0").is_some_and(|s| s != 0) && seed("e0-0") != seed("a0-0"));
    assert_eq!(seed("h0-0-0"), None);
    lab.ecmp = false;
    let single = plan_of(&lab);
    assert!(single.nodes.iter().flat_map(|n| &n.routes).all(|r| r.also.is_empty()));
    assert_ne!(single.digest, several.digest);
}

#[test]
fn parallel_links_are_all_used_up_to_a_bound() {
    let mut lab = LabBuilder::new();
    lab.router("a").router("b").host("h");
    (0..20).for_each(|_| {
        lab.link("a", "b");
    });
    lab.link("b", "h");
    let plan = plan(&lab.lab).unwrap();
    Simulator::new(&plan).check_all();
    assert_eq!(ways(&plan, "a", plan.nodes[2].ipv4().unwrap().into()), 16);
}

#[test]
fn an_interface_that_goes_takes_its_next_hop_along() {
    let mut lab = LabBuilder::new();
    lab.router("a").router("x").router("y").router("b").host("h");
    lab.link("a", "x").link("a", "y").link("x", "b").link("y", "b").link("b", "h");
    let mut plan = plan(&lab.lab).unwrap();
    let to = plan.nodes[4].ipv4().unwrap().into();
    assert_eq!(ways(&plan, "a", to), 2);
    // The first next hop goes, and the second takes its place.
    plan.remove_nodes(&std::collections::BTreeSet::from([crate::plan::Slot::new(1)]));
    assert_eq!(ways(&plan, "a", to), 1);
    let a = &plan.nodes[0];
    let via = plan.nodes[1].interfaces[0].addresses[0].addr();
    assert_eq!(a.interfaces.len(), 1);
    assert!(a.routes.iter().any(|r| r.via == Some(via) && r.interface == 0));
    plan.remove_nodes(&std::collections::BTreeSet::from([crate::plan::Slot::new(1)]));
    assert!(plan.nodes[0].routes.is_empty());
}

#[test]
fn large_labs_have_one_route_an_owner() {
    let mut lab = torus(32);
    let routed = plan(&lab).unwrap();
    assert!(routed.nodes.iter().all(|n| n.routes.len() == 2 * 1023));
    lab.nodes.iter_mut().for_each(|n| n.forwarding = Forwarding::default());
    let hosts = plan(&lab).unwrap();
    assert!(hosts.nodes.iter().all(|n| n.routes.is_empty()));
    assert_ne!(hosts.digest, routed.digest);
}

/// Routers in a row.
fn line(routers: usize) -> LabBuilder {
    let mut lab = LabBuilder::new();
    let names: Vec<String> = (0..routers).map(|n| format!("r{n}")).collect();
    names.iter().for_each(|name| {
        lab.router(name);
    });
    names.windows(2).for_each(|pair| {
        lab.link(&pair[0], &pair[1]);
    });
    lab
}

#[test]
fn more_routes_than_a_lab_may_have_are_refused_before_there_are_any() {
    let mut lab = line(2900).lab;
    let refused = plan(&lab).unwrap_err();
    // One for each router and a default route, in both families.
    let PlanError::TooManyRoutes { routes, most } = &refused else { panic!("{refused}") };
    assert_eq!((*routes, *most), (2900 * 2900 * 2, 1 << 23));
    lab.routing = false;
    assert!(plan(&lab).is_ok());
    // Only reachability matters here.
    lab.routing = true;
    lab.links = (0..lab.links.len()).step_by(2).map(|link| lab.links[link].clone()).collect();
    let islands = plan(&lab).unwrap();
    assert!(islands.nodes.iter().all(|node| node.routes.len() <= 2));
}

#[test]
fn routes_with_the_same_next_hops_share_them() {
    let plan = plan(&torus(8)).unwrap();
    for node in &plan.nodes {
        let mut lists: Vec<_> =
            node.routes.iter().map(|r| (r.to.addr().is_ipv4(), &r.also)).collect();
        lists.sort_by_key(|(ipv4, hops)| (*ipv4, hops.as_ptr()));
        lists.dedup_by(|a, b| a.0 == b.0 && std::sync::Arc::ptr_eq(a.1, b.1));
        let mut contents: Vec<_> =
            lists.iter().map(|(v4, hops)| (*v4, format!("{hops:?}"))).collect();
        contents.sort();
        let before = contents.len();
        contents.dedup();
        // Equal lists may come with different first hops.
        assert!(before <= 2 * contents.len() && before < 40, "{}: {before}", node.name);
    }
}

/// What the kernel's tables of learnt neighbours hold when all nodes of a segment talk to each other.
#[test]
fn learnt_neighbours_are_counted_by_segment() {
    let mut lab = LabBuilder::new();
    lab.switch("s").switch("t").link("s", "t").host("a").host("b").link("a", "b");
    for number in 0..40 {
        let name = format!("n{number}");
        lab.host(&name);
        lab.link(&name, if number % 2 == 0 { "s" } else { "t" });
    }
    let learnt = plan(&lab.lab).unwrap().neighbours();
    // Forty that all see each other, and two; IPv6 has a link-local address beside each.
    assert_eq!(learnt, Neighbours { ipv4: 40 * 39 + 2, ipv6: 2 * (40 * 39 + 2) });
    // The outer end of a door is one more.
    lab.link("s", "internet");
    assert_eq!(plan(&lab.lab).unwrap().neighbours().ipv4, 41 * 40 + 2);
    // Of a large lab only those on switches are learnt.
    let ring = plan(&torus(16)).unwrap();
    assert!(ring.fixes_neighbours());
    assert_eq!(ring.neighbours(), Neighbours::default());
}
