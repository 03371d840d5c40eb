//! Labs of known shapes, every pair of addresses tried.

use super::build_lab::{LabBuilder, two_sites};
use super::simulator::{Place, Simulator};
use crate::lab::Lab;
use crate::plan::plan;

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
    assert_eq!(simulator.walk(Place::Node(plan.node("h0-0-0").unwrap()), last), Ok(6));
}

#[test]
fn large_labs_have_one_route_an_owner() {
    let mut lab = torus(32);
    let routed = plan(&lab).unwrap();
    assert!(routed.nodes.iter().all(|n| n.routes.len() == 2 * 1023));
    lab.nodes.iter_mut().for_each(|n| n.forwarding = false);
    let hosts = plan(&lab).unwrap();
    assert!(hosts.nodes.iter().all(|n| n.routes.is_empty()));
    assert_ne!(hosts.digest, routed.digest);
}
