//! What holds of every placement: 300 labs at random, of fixed seeds.

use std::collections::HashMap;

use netloom_digest::splitmix::SplitMix64;
use netloom_model::plan::{LinkSlot, Placement, Plan, PlannedNode};
use netloom_placement::{BALANCE_PERCENT, demand};

use crate::integration::labs::{Case, equal, hosts, random};

/// The weight of a node and what is in it: thousandths of a CPU, a whole one without a limit.
fn weights(plan: &Plan) -> HashMap<usize, u64> {
    let mut all = HashMap::new();
    for (at, node) in plan.nodes.iter().enumerate() {
        let mut outer = at;
        while let Some(parent) = plan.nodes[outer].parent {
            outer = parent.get();
        }
        let default = if outer == at { 1000 } else { 0 };
        *all.entry(outer).or_default() += node.limits.cpu_milli.map_or(default, u64::from);
    }
    all
}

fn is_balanced(case: &Case, placement: &Placement) -> bool {
    let weights = weights(&case.plan);
    let (total, largest): (u64, u64) =
        (weights.values().sum(), weights.values().copied().max().unwrap_or_default());
    let count = u64::try_from(case.hosts.list.len()).unwrap();
    let target = total.div_ceil(count);
    let bound = target + largest.max(target * BALANCE_PERCENT / 100);
    (0..case.hosts.list.len()).all(|host| {
        let here = weights.iter().filter(|(node, _)| {
            placement.of_node(netloom_model::plan::Slot::new(**node)) == Some(host)
        });
        here.map(|(_, weight)| weight).sum::<u64>() <= bound
    })
}

#[test]
fn every_placement_is_balanced_and_always_the_same() {
    let mut numbers = SplitMix64::new(4601);
    for round in 0..300 {
        let text = random(&mut numbers);
        let case = Case::new(&text, &equal(1 + numbers.index(9)));
        let placement = case.place().unwrap();
        assert_eq!(case.place().unwrap(), placement, "round {round}");
        assert!(is_balanced(&case, &placement), "round {round}\n{text}{placement:?}");
    }
}

/// A node as its host makes it, as bytes: name, MACs, addresses, routes, settings.
fn bytes(node: &PlannedNode) -> String {
    let mut node = node.clone();
    node.parent = None;
    node.interfaces.iter_mut().for_each(|interface| interface.link = LinkSlot::NOT_SHOWN);
    serde_json::to_string(&node).unwrap()
}

#[test]
fn addresses_and_routes_are_byte_equal_on_1_2_and_9_hosts_and_parts_are_the_plan() {
    let mut numbers = SplitMix64::new(4602);
    for round in 0..100 {
        let text = random(&mut numbers).replace("routing: none", "routing: auto");
        let mut found: Vec<Vec<String>> = Vec::new();
        let mut across: HashMap<String, u32> = HashMap::new();
        for count in [1, 2, 9] {
            let case = Case::new(&text, &equal(count));
            let placement = case.place().unwrap();
            let parts: Vec<_> = (0..count).map(|host| case.plan.part(&placement, host)).collect();
            let mut nodes: Vec<String> =
                parts.iter().flat_map(|part| &part.plan.nodes).map(bytes).collect();
            nodes.sort();
            found.push(nodes);
            let whole: usize = parts.iter().map(|part| part.plan.links.len()).sum();
            let halves: Vec<_> = parts.iter().flat_map(|part| &part.halves).collect();
            assert_eq!(whole + halves.len() / 2, case.plan.links.len(), "round {round}");
            let mut twice: HashMap<u32, Vec<&str>> = HashMap::new();
            for half in halves {
                twice.entry(half.number).or_default().push(&half.name);
                // The same number whatever the number of hosts.
                assert_eq!(*across.entry(half.name.clone()).or_insert(half.number), half.number);
            }
            assert!(twice.values().all(|names| names.len() == 2 && names[0] == names[1]));
        }
        let mut plan: Vec<String> =
            Case::new(&text, &equal(1)).plan.nodes.iter().map(bytes).collect();
        plan.sort();
        assert!(found.iter().all(|nodes| *nodes == plan), "round {round}\n{text}");
    }
}

#[test]
fn no_capacity_is_ever_passed() {
    let mut numbers = SplitMix64::new(4603);
    let mut refused = 0;
    for round in 0..300 {
        let text = random(&mut numbers);
        let bodies: Vec<String> = (0..1 + numbers.index(4))
            .map(|_| {
                let (memory, cpu) = (64 + 64 * numbers.below(16), 1 + numbers.below(8));
                format!("capacity: {{memory: {memory}MiB, cpu: {cpu}}}")
            })
            .collect();
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        let case = Case::new(&text, &hosts(&bodies));
        let Ok(placement) = case.place() else {
            let told = case.refused();
            assert!(told.contains("node \"") && told.contains(" needs "), "round {round}: {told}");
            refused += 1;
            continue;
        };
        let needs = demand(&case.plan);
        for (at, host) in case.hosts.list.iter().enumerate() {
            let here = case.plan.slots().filter(|slot| placement.of_node(*slot) == Some(at));
            let (mut memory, mut cpu) = (0, 0);
            for slot in here {
                memory += needs[slot.get()].memory;
                cpu += needs[slot.get()].cpu_milli;
            }
            assert!(memory <= host.memory.unwrap(), "round {round}");
            assert!(cpu <= u64::from(host.cpu_milli.unwrap()), "round {round}");
        }
    }
    // Both happen, or this test shows nothing.
    assert!((30..270).contains(&refused), "{refused}");
}
