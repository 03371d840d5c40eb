//! Properties of parts: of any lab, on any hosts.

use std::collections::HashMap;

use proptest::prelude::*;

use super::build_lab::LabBuilder;
use super::property::any_lab;
use crate::kinds::SwitchKind;
use crate::plan::{LinkSlot, Part, Placement, Plan, PlannedEnd, Slot, SwitchSlot, plan};

/// A number for each choice, at random.
fn any_numbers() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 64)
}

/// A placement by these numbers, now and then with split switches.
fn placement(plan: &Plan, hosts: usize, numbers: &[u16]) -> Placement {
    let number = |at: usize| usize::from(numbers[at % numbers.len()]);
    let mut nodes: Vec<usize> = Vec::new();
    for (at, node) in plan.nodes.iter().enumerate() {
        nodes.push(node.parent.map_or(number(at) % hosts, |parent| nodes[parent.get()]));
    }
    let switches = plan.switches.iter().enumerate().map(|(at, switch)| {
        let first = number(at + 31) % hosts;
        let pieces = match switch.kind {
            SwitchKind::Bridge if number(at + 7).is_multiple_of(2) => hosts,
            _ => 1,
        };
        (0..pieces).map(|piece| (first + piece) % hosts).collect()
    });
    let switches = switches.collect();
    let names = (0..hosts).map(|at| format!("host{at}")).collect();
    Placement::new(plan, names, nodes, switches).unwrap()
}

fn parts(plan: &Plan, placement: &Placement) -> Vec<Part> {
    (0..placement.hosts().len()).map(|host| plan.part(placement, host)).collect()
}

/// All that must be the same wherever a node is made, as bytes.
fn bytes(plan: &Plan) -> HashMap<String, String> {
    let node = |node: &crate::plan::PlannedNode| {
        let mut node = node.clone();
        node.parent = None;
        node.interfaces.iter_mut().for_each(|interface| interface.link = LinkSlot::NOT_SHOWN);
        serde_json::to_string(&node).unwrap()
    };
    plan.nodes.iter().map(|of| (of.name.clone(), node(of))).collect()
}

/// An end with names instead of slots.
fn end_of(plan: &Plan, end: &PlannedEnd) -> (String, PlannedEnd) {
    let mut bare = end.clone();
    match &mut bare {
        PlannedEnd::Node { node, .. } => *node = Slot::new(0),
        PlannedEnd::Port { switch, .. } => *switch = SwitchSlot::new(0),
        _ => {}
    }
    (plan.end_text(end), bare)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: proptest::test_runner::RngSeed::Fixed(46),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_parts_together_are_the_plan(lab in any_lab(), numbers in any_numbers(), hosts in 1..10_usize) {
        let Ok(plan) = plan(&lab.lab) else { return Ok(()) };
        let placement = placement(&plan, hosts, &numbers);
        let parts = parts(&plan, &placement);
        // Nodes: each in one part, with the same names, addresses and routes, byte by byte.
        let mut found = HashMap::new();
        for part in &parts {
            prop_assert_eq!(&part.plan.hosts, &plan.hosts);
            for (name, text) in bytes(&part.plan) {
                prop_assert!(found.insert(name, text).is_none());
            }
        }
        prop_assert_eq!(found, bytes(&plan));
        // Links: whole in one part, or a half in each of two.
        let numbers = plan.link_numbers();
        for (slot, link) in plan.link_slots().zip(&plan.links) {
            let whole = parts.iter().flat_map(|part| {
                let same = part.plan.links.iter().filter(|other| other.id == link.id);
                same.map(move |other| other.ends.iter().map(|end| end_of(&part.plan, end)))
            });
            let whole: Vec<Vec<_>> = whole.map(Iterator::collect).collect();
            let ends: Vec<_> = link.ends.iter().map(|end| end_of(&plan, end)).collect();
            let halves = parts.iter().flat_map(|part| {
                part.halves.iter().filter(|half| half.id == Some(link.id)).map(move |half| (part, half))
            });
            let halves: Vec<_> = halves.collect();
            if let [one] = whole.as_slice() {
                prop_assert_eq!((one, halves.len()), (&ends, 0));
                continue;
            }
            prop_assert_eq!((whole.len(), halves.len()), (0, 2));
            let (near, far) = (halves[0], halves[1]);
            for ((part, half), (other, _)) in [(near, far), (far, near)] {
                prop_assert_eq!(half.number, numbers[slot.get()]);
                prop_assert_eq!(&half.peer, &other.host);
                prop_assert_eq!((half.mtu, &half.name), (link.mtu, &link.name));
                let mine = end_of(&part.plan, &half.end);
                let side = ends.iter().position(|end| *end == mine);
                prop_assert!(side.is_some(), "{:?} {:?}", mine, ends);
                let side = side.unwrap_or_default();
                // A link of a node to itself has equal ends only in words.
                prop_assert_eq!(&half.far, &ends[1 - side].0);
                prop_assert_eq!(&half.impairments, &link.impairments[side]);
            }
        }
        // Pieces of a switch hang together, and no number is there twice.
        let crossings = plan.crossings(&placement);
        let mut seen: HashMap<u32, usize> = HashMap::new();
        for half in parts.iter().flat_map(|part| &part.halves) {
            *seen.entry(half.number).or_default() += 1;
        }
        prop_assert_eq!(seen.len(), crossings.len());
        prop_assert!(seen.values().all(|halves| *halves == 2));
        prop_assert!(crossings.iter().all(|of| (1..=(1 << 24) - 2).contains(&of.number)));
        let pieces: usize = plan.switch_slots().map(|s| placement.of_switch(s).len()).sum();
        prop_assert_eq!(parts.iter().map(|part| part.plan.switches.len()).sum::<usize>(), pieces);
        let trunks = crossings.iter().filter(|of| of.link.is_none()).count();
        prop_assert_eq!(trunks, pieces - plan.switches.len());
    }

    #[test]
    fn numbers_do_not_depend_on_hosts_or_later_links(lab in any_lab(), numbers in any_numbers()) {
        let Ok(first) = plan(&lab.lab) else { return Ok(()) };
        let by_name = |plan: &Plan, hosts: usize| {
            let crossings = plan.crossings(&placement(plan, hosts, &numbers));
            let named = crossings.into_iter().filter(|of| of.link.is_some());
            named.map(|of| (of.name, of.number)).collect::<HashMap<_, _>>()
        };
        let all: HashMap<_, _> =
            first.links.iter().map(|link| link.name.clone()).zip(first.link_numbers()).collect();
        for hosts in [1, 2, 9] {
            prop_assert!(by_name(&first, hosts).iter().all(|(name, number)| all[name] == *number));
        }
        let mut longer = lab;
        longer.link("n0", "n0");
        let Ok(second) = plan(&longer.lab) else { return Ok(()) };
        prop_assert_eq!(&second.link_numbers()[..first.links.len()], first.link_numbers());
    }
}

#[test]
fn one_host_makes_the_whole_lab() {
    let mut lab = LabBuilder::new();
    lab.router("r1").host("h1").child("h1/c", None).switch("s1");
    lab.link("h1", "s1").link("r1", "s1").link("r1", "host:eth9");
    let whole = plan(&lab.lab).unwrap();
    let part = whole.part(&Placement::on_one(&whole, "east"), 0);
    assert_eq!(part.halves, []);
    assert_eq!(part.plan, Plan { scheme: None, ..whole });
}

#[test]
fn a_split_switch_is_a_piece_on_each_host_and_its_ports_are_where_the_nodes_are() {
    let mut lab = LabBuilder::new();
    lab.host("a").host("b").host("c").switch("s1");
    lab.link("a", "s1").link("b", "s1").link("c", "s1");
    let whole = plan(&lab.lab).unwrap();
    let names = ["x", "y", "z"].map(str::to_owned).to_vec();
    let split = Placement::new(&whole, names.clone(), vec![0, 1, 2], vec![vec![1, 0]]).unwrap();
    let parts = parts(&whole, &split);
    let across: Vec<(&str, &str, String)> = parts
        .iter()
        .flat_map(|part| {
            part.halves.iter().map(|h| (part.host.as_str(), h.peer.as_str(), h.name.clone()))
        })
        .collect();
    let name = |text: &str| text.to_owned();
    // c has no piece on its host: it is linked to the first piece.
    assert_eq!(
        across,
        [
            ("x", "y", name("s1@y--s1@x")),
            ("y", "z", name("c:eth0--s1")),
            ("y", "x", name("s1@y--s1@x")),
            ("z", "y", name("c:eth0--s1")),
        ]
    );
    assert_eq!(parts.iter().map(|part| part.plan.switches.len()).collect::<Vec<_>>(), [1, 1, 0]);
    assert_eq!(parts.iter().map(|part| part.plan.links.len()).collect::<Vec<_>>(), [1, 1, 0]);
    let ports = parts.iter().flat_map(|part| &part.halves).filter_map(|half| match &half.end {
        PlannedEnd::Port { name, switch, .. } if half.id.is_none() => Some((name, switch.get())),
        _ => None,
    });
    assert!(
        ports.clone().count() == 2
            && ports.clone().all(|(name, at)| name.starts_with("x@") && at == 0)
    );
    // Of other plans there is none.
    for (nodes, switches) in [
        (vec![0, 1], vec![vec![0]]),
        (vec![0, 1, 3], vec![vec![0]]),
        (vec![0; 3], vec![vec![]]),
        (vec![0; 3], vec![vec![1, 1]]),
    ] {
        assert!(Placement::new(&whole, names.clone(), nodes, switches).is_err());
    }
}

proptest! {
    /// A part is a lab that can be stored and read again, with all the interfaces and ports of its nodes and switches, and
    /// both hosts of a link call it the same.
    #[test]
    fn a_part_is_a_lab_with_its_halves_as_links_that_lead_nowhere(
        lab in any_lab(),
        hosts in 1_usize..4,
        numbers in any_numbers(),
    ) {
        let Ok(whole) = plan(&lab.lab) else { return Ok(()) };
        let placement = placement(&whole, hosts, &numbers);
        let mut seen: HashMap<u32, Vec<String>> = HashMap::new();
        for part in parts(&whole, &placement) {
            let (here, halves, links) = (part.host.clone(), part.halves.clone(), part.plan.links.len());
            let before = bytes(&part.plan);
            let (lab, far) = part.into_lab();
            prop_assert_eq!(&bytes(&lab), &before);
            prop_assert_eq!((lab.links.len(), far.len()), (links + halves.len(), halves.len()));
            for (far, half) in far.iter().zip(&halves) {
                let link = lab.links.iter().find(|link| link.id == far.link).unwrap();
                prop_assert_eq!(&link.ends[1 - far.side], &half.end);
                prop_assert!(matches!(link.ends[far.side], PlannedEnd::Nowhere { .. }), "{:?}", link);
                prop_assert_eq!((&link.name, link.mtu), (&half.name, half.mtu));
                prop_assert!(far.peer != here);
                seen.entry(far.number).or_default().push(link.name.clone());
            }
            let text = serde_json::to_string(&lab).unwrap();
            let read: Plan = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read, lab);
        }
        prop_assert!(seen.values().all(|names| names.len() == 2 && names[0] == names[1]), "{:?}", seen);
    }
}

#[test]
fn nodes_of_other_hosts_have_their_lines_of_names() {
    let text = "name: t\nnodes: {a: {hostname: box}, b: {hostname: box}, c: {}}\nlinks: [[a, b], [b, c]]\n";
    let lab = crate::parse("t.yaml", text.as_bytes(), "t").unwrap();
    let whole = plan(&lab).unwrap();
    let names = vec!["east".to_owned(), "west".to_owned()];
    let placement = Placement::new(&whole, names, vec![0, 1, 1], vec![]).unwrap();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (host, here, there) in
        [(0, ["a"].as_slice(), ["b", "c"].as_slice()), (1, &["b", "c"], &["a"])]
    {
        let beyond = lines(&whole.hosts_beyond(&whole.part(&placement, host).plan));
        let all = lines(&whole.hosts);
        let of = |name: &str| {
            all.iter()
                .filter(|line| line.split(['\t', ' ']).nth(1) == Some(name))
                .collect::<Vec<_>>()
        };
        for name in there {
            assert!(
                !of(name).is_empty() && of(name).iter().all(|line| beyond.contains(line)),
                "{name}: {beyond:?}"
            );
        }
        for name in here.iter().chain(&["localhost"]) {
            assert!(of(name).iter().all(|line| !beyond.contains(line)), "{name}: {beyond:?}");
        }
    }
}
