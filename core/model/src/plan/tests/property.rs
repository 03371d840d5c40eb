//! Properties of every lab.

use std::collections::HashSet;
use std::net::IpAddr;

use proptest::prelude::*;

use super::build_lab::LabBuilder;
use super::simulator::{Lost, Place, Simulator};
use crate::forwarding::Forwarding;
use crate::lab::{End, Lab};
use crate::plan::{Numbering, Plan, PlannedEnd, Route, plan};

/// A lab of a few hosts, routers and switches, linked at random; doors now and then.
pub(crate) fn any_lab() -> impl Strategy<Value = LabBuilder> {
    let nodes = prop::collection::vec(any::<bool>(), 1..9);
    let links = prop::collection::vec((any::<u16>(), any::<u16>()), 0..18);
    (nodes, 0..4_usize, links, 0..4_usize, 0..3_usize, any::<bool>()).prop_map(
        |(nodes, switches, links, pools, doors, ecmp)| {
            let mut lab = LabBuilder::new();
            lab.lab.ecmp = ecmp;
            for (index, forwarding) in nodes.iter().enumerate() {
                let name = format!("n{index}");
                if *forwarding {
                    lab.router(&name)
                } else {
                    lab.host(&name)
                };
            }
            (0..switches).for_each(|index| {
                lab.switch(&format!("s{index}"));
            });
            for (a, b) in links {
                add_link(&mut lab, a, b, doors);
            }
            match pools {
                0 => {
                    lab.lab.pool.ipv4 = Some("10.77.0.0/16".parse().unwrap());
                    lab.lab.pool.ipv6 = Some("fd12:3456::/32".parse().unwrap());
                }
                1 => lab.lab.pool.ipv4 = None,
                _ => {}
            }
            lab
        },
    )
}

/// Adds a link between two ends by number; the last `doors` of 16 second ends are doors.
pub(crate) fn add_link(lab: &mut LabBuilder, a: u16, b: u16, doors: usize) {
    let nodes = lab.lab.nodes.iter().map(|n| n.name.clone());
    let names: Vec<String> = nodes.chain(lab.lab.switches.iter().map(|s| s.name.clone())).collect();
    let first = &names[usize::from(a) % names.len()];
    let second = match usize::from(b) % 16 {
        15 if doors > 0 => "internet".to_owned(),
        14 if doors > 1 => format!("host:eth{}", lab.lab.links.len()),
        _ => names[usize::from(b / 16) % names.len()].clone(),
    };
    if !(first == &second && first.starts_with('s')) {
        lab.link(first, &second);
        // Now and then an end has no address.
        if a.is_multiple_of(11) && first.starts_with('n') {
            lab.bare(0);
        }
        if b.is_multiple_of(11) && second.starts_with('n') {
            lab.bare(1);
        }
    }
}

/// Everything about a plan's first links that must not change.
fn identity(plan: &Plan, links: usize) -> Vec<String> {
    let mut all = Vec::new();
    for link in &plan.links[..links] {
        let ends = link.ends.iter().map(|end| match end {
            PlannedEnd::Node { node, interface } => {
                let interface = &plan.nodes[*node].interfaces[*interface];
                let (name, mac) = (&interface.name, &interface.mac);
                format!("{node} {name} {mac:?} {:?}", interface.addresses)
            }
            other => format!("{other:?}"),
        });
        all.push(format!("{} {:?}", link.name, ends.collect::<Vec<_>>()));
    }
    all.extend(plan.switches.iter().map(|s| format!("{s:?}")));
    all
}

pub(super) fn joins_switches(lab: &Lab) -> bool {
    let last = lab.links.last().map(|l| &l.ends);
    matches!(last, Some([End::Switch { .. }, End::Switch { .. }]))
}

/// Every address of a plan, doors' included.
fn addresses(plan: &Plan) -> Vec<IpAddr> {
    let nodes = plan.nodes.iter().flat_map(|n| &n.interfaces).flat_map(|i| &i.addresses);
    let doors = plan.links.iter().flat_map(|l| &l.ends).filter_map(|end| match end {
        PlannedEnd::Internet { addresses } => Some(addresses),
        _ => None,
    });
    nodes.chain(doors.flatten()).map(|net| net.addr()).collect()
}

fn all_different<T: std::hash::Hash + Eq>(items: impl IntoIterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    items.into_iter().all(|item| seen.insert(item))
}

fn check_unique(plan: &Plan) {
    assert!(all_different(addresses(plan)), "addresses");
    assert!(all_different(plan.links.iter().map(|l| &l.name)), "link names");
    let ports: Vec<(&String, &[u8; 6])> = plan
        .links
        .iter()
        .flat_map(|l| &l.ends)
        .filter_map(|end| match end {
            PlannedEnd::Port { name, mac, .. } => Some((name, mac)),
            _ => None,
        })
        .collect();
    let bridges = plan.switches.iter().map(|s| (&s.bridge, &s.mac));
    let core: Vec<_> = ports.into_iter().chain(bridges).collect();
    assert!(all_different(core.iter().map(|c| c.0)), "names in the core namespace");
    assert!(core.iter().all(|c| c.0.len() <= 15));
    let macs = plan.nodes.iter().flat_map(|n| &n.interfaces).map(|i| &i.mac);
    assert!(all_different(macs.chain(core.iter().map(|c| c.1))), "MACs");
    for node in &plan.nodes {
        assert!(all_different(node.interfaces.iter().map(|i| &i.name)), "{}", node.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_global_rejects: 1 << 20, ..ProptestConfig::default() })]

    #[test]
    fn every_connected_pair_is_reached(lab in any_lab()) {
        let plan = plan(&lab.lab).unwrap();
        let simulator = Simulator::new(&plan);
        simulator.check_all();
        check_unique(&plan);
        let outside: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        for (index, node) in plan.nodes.iter().enumerate() {
            let found = outside.map(|to| simulator.walk(Place::Node(index), to));
            let reached = matches!(found[1], Err(Lost::Outside(_)));
            prop_assert_eq!(reached, node.internet, "{}: {:?}", &node.name, found);
        }
    }

    /// With single paths each route's next hop is the first of the several ones.
    #[test]
    fn several_next_hops_add_to_single_ones(lab in any_lab()) {
        let mut lab = lab.lab;
        lab.ecmp = true;
        let several = plan(&lab).unwrap();
        lab.ecmp = false;
        let single = plan(&lab).unwrap();
        for (many, one) in several.nodes.iter().zip(&single.nodes) {
            let first = |r: &Route| Route { also: std::sync::Arc::default(), ..r.clone() };
            prop_assert_eq!(many.routes.iter().map(first).collect::<Vec<_>>(), &one.routes[..]);
            for route in &many.routes {
                prop_assert!(route.also.len() < 16);
                let hops = route.also.iter().map(|hop| (Some(hop.via), hop.interface));
                prop_assert!(all_different(hops.chain([(route.via, route.interface)])));
            }
            let needed = many.routes.iter().any(|r| !r.also.is_empty());
            let set = many.sysctls.iter().any(|(path, _)| path.ends_with("fib_multipath_hash_policy"));
            prop_assert_eq!(needed, set, "{}", &many.name);
        }
    }

    #[test]
    fn packets_to_nobody_do_not_run_in_circles(lab in any_lab(), low in any::<u16>()) {
        let plan = plan(&lab.lab).unwrap();
        let simulator = Simulator::new(&plan);
        let used: HashSet<IpAddr> = addresses(&plan).into_iter().collect();
        for address in &used {
            // Somewhere in the same block.
            let nobody = match address {
                IpAddr::V4(a) => IpAddr::from((a.to_bits() & !0x3ff | u32::from(low & 0x3ff)).to_be_bytes()),
                IpAddr::V6(a) => IpAddr::from((a.to_bits() ^ u128::from(low) << 64).to_be_bytes()),
            };
            if !used.contains(&nobody) {
                simulator.check_no_circle(nobody);
            }
        }
    }

    #[test]
    fn one_more_link_at_the_end_renumbers_nothing(lab in any_lab(), a in any::<u16>(), b in any::<u16>()) {
        let before = plan(&lab.lab).unwrap();
        let mut more = lab.clone();
        add_link(&mut more, a, b, 2);
        prop_assume!(more.lab.links.len() > lab.lab.links.len() && !joins_switches(&more.lab));
        let after = plan(&more.lab).unwrap();
        let links = lab.lab.links.len();
        prop_assert_eq!(identity(&before, links), identity(&after, links));
        prop_assert_ne!(before.digest, after.digest);
    }

    /// Whichever nodes begin or cease to forward: a lab that is up keeps its addresses, and every pair is reached.
    #[test]
    fn other_routers_renumber_nothing(lab in any_lab(), turned in any::<[u16; 2]>()) {
        let mut lab = lab.lab;
        let mut running = plan(&lab).unwrap();
        for turned in turned {
            let all = lab.nodes.iter_mut().enumerate();
            for (_, node) in all.filter(|(at, _)| turned >> at & 1 == 1) {
                node.forwarding = Forwarding::Both(!node.forwarding.any());
            }
            let next = plan(Numbering::of(&running).put(&lab).as_ref().unwrap_or(&lab)).unwrap();
            prop_assert_eq!(identity(&running, lab.links.len()), identity(&next, lab.links.len()));
            let simulator = Simulator::new(&next);
            simulator.check_all();
            addresses(&next).into_iter().for_each(|to| simulator.check_no_circle(to));
            running = next;
        }
    }

    #[test]
    fn same_lab_same_plan(lab in any_lab()) {
        prop_assert_eq!(plan(&lab.lab).unwrap(), plan(&lab.lab).unwrap());
    }
}
