//! Pins hold, and what cannot hold is refused by name.

use netloom_digest::splitmix::SplitMix64;
use netloom_model::plan::PlannedEnd;

use crate::integration::labs::{Case, equal, hosts, random};

const LAB: &str = "name: pinned
nodes: {h1: {}, h2: {}, r1: {forwarding: true, children: {nodes: {c: {}}}}}
switches: {s1: {}, s2: {}}
links: [[h1, s1], [h2, s2], [r1, s1], [r1, s2]]
";

fn case(place: &str, count: usize) -> Case {
    Case::new(&format!("{LAB}place: {place}\n"), &equal(count))
}

#[test]
fn names_patterns_and_lists_hold() {
    let case = case("{h1: c, \"h*\": b, r1: [a, b], s1: a}", 3);
    let placement = case.place().unwrap();
    let host = |name| case.host(&placement, name);
    assert_eq!([host("h1"), host("h2"), host("s1")], ["c", "b", "a"]);
    assert!(["a", "b"].contains(&host("r1").as_str()));
    assert_eq!(host("r1/c"), host("r1"));
}

#[test]
fn random_pins_hold() {
    let mut numbers = SplitMix64::new(4604);
    for round in 0..200 {
        let mut text = random(&mut numbers) + "place:\n";
        let count = 2 + numbers.index(7);
        let mut pinned = Vec::new();
        let nodes = text.lines().filter(|line| line.starts_with("  n")).count();
        for at in (0..nodes).filter(|_| numbers.below(3) == 0).collect::<Vec<_>>() {
            let letters: Vec<char> = (0..1 + numbers.index(2))
                .map(|_| char::from(b'a' + u8::try_from(numbers.index(count)).unwrap()))
                .collect();
            let mut letters = letters;
            letters.dedup();
            let list: Vec<String> = letters.iter().map(char::to_string).collect();
            text += &format!("  n{at}: [{}]\n", list.join(", "));
            pinned.push((format!("n{at}"), list));
        }
        let case = Case::new(&text, &equal(count));
        let placement = case.place().unwrap();
        for (name, hosts) in pinned {
            assert!(hosts.contains(&case.host(&placement, &name)), "round {round}: {name} {text}");
        }
    }
}

#[test]
fn pins_to_no_host_and_those_apart_are_refused_by_name() {
    let told = case("{h1: d, s1: easst}", 3).refused();
    assert_eq!(
        told,
        "place: \"h1\": no host \"d\" in the hosts file\nplace: \"s1\": no host \"easst\" in the hosts file\n"
    );
    let lab = "name: controlled
nodes: {c0: {}, h1: {}}
switches: {s1: {kind: openflow, controllers: node:c0}}
links: [[h1, s1]]
";
    let together = Case::new(lab, &equal(4));
    let placement = together.place().unwrap();
    assert_eq!(together.host(&placement, "c0"), together.host(&placement, "s1"));
    let apart = Case::new(&format!("{lab}place: {{c0: a, s1: b}}\n"), &equal(2));
    assert_eq!(
        apart.refused(),
        "place: \"c0\" and \"s1\" must be on one host (the node is the switch's controller), and are pinned to \
         different ones; pin both to the same\n"
    );
}

#[test]
fn what_no_host_has_room_for_is_refused_by_name() {
    let lab = "name: large\nnodes: {small: {limits: {memory: 64MiB}}, big: {limits: {memory: 2GiB, cpu: 3}}}\n";
    let two = hosts(&["capacity: {memory: 1GiB, cpu: 4}", "capacity: {memory: 3GiB, cpu: 2}"]);
    assert_eq!(
        Case::new(lab, &two).refused(),
        "node \"big\" needs 2048.6 MiB of memory and 3.000 CPUs; no host has room: \"b\" has 3072.0 MiB of memory and \
         2.000 CPUs left, the others less; add a host, give the hosts more `capacity`, or lower the node's `limits`\n"
    );
    let pinned = format!("{lab}place: {{big: a}}\n");
    let told = Case::new(&pinned, &two).refused();
    assert!(told.contains("host \"a\", to which it is pinned, has 1024.0 MiB of memory"), "{told}");
    // A capacity that is not given bounds nothing.
    let open = hosts(&["", "capacity: {cpu: 1}"]);
    let case = Case::new(lab, &open);
    assert_eq!(case.host(&case.place().unwrap(), "big"), "a");
}

#[test]
fn capacities_that_only_one_arrangement_fits_are_met() {
    // Seven of 300 MiB in three hosts of 700, 700 and 1,000: no other way than 2, 2, 3.
    let lab = "name: tight\nnodes: {\"h{i}\": {for: {i: 7}, limits: {memory: 300MiB}}}\nlinks: [[h0, h1], [h1, h2], [h2, h3], [h3, h4]]\n";
    let tight = hosts(&[
        "capacity: {memory: 700MiB}",
        "capacity: {memory: 700MiB}",
        "capacity: {memory: 1000MiB}",
    ]);
    let case = Case::new(lab, &tight);
    assert_eq!(case.counts(&case.place().unwrap()), [2, 2, 3]);
}

#[test]
fn a_switch_is_on_one_host_unless_the_file_splits_it() {
    let lab = "name: lan
nodes: {\"h{i}\": {for: {i: 12}}}
switches: {lan: {}}
links: [{ends: [\"h{i}\", lan], for: {i: 12}}]
";
    let pieces = |place: &str| {
        let case = Case::new(&format!("{lab}{place}"), &equal(3));
        let placement = case.place().unwrap();
        let crossings = case.plan.crossings(&placement);
        let names: Vec<String> = crossings.iter().map(|of| of.name.clone()).collect();
        let pieces = placement.of_switch(case.plan.switch("lan").unwrap()).to_vec();
        // A port is on its node's host where a piece is.
        for link in &case.plan.links {
            let PlannedEnd::Node { node, .. } = link.ends[0] else { panic!("{link:?}") };
            let host = placement.of_node(node).unwrap();
            assert_eq!(names.contains(&link.name), !pieces.contains(&host), "{place}");
        }
        let elsewhere = case.counts(&placement).into_iter().enumerate();
        let elsewhere = elsewhere.filter(|(host, _)| !pieces.contains(host));
        let nodes: usize = elsewhere.map(|(_, nodes)| nodes).sum();
        assert_eq!(names.len(), nodes + pieces.len() - 1, "{place}: {names:?}");
        pieces
    };
    assert_eq!(pieces("").len(), 1);
    assert_eq!(pieces("place: {lan: {split: true}}\n").len(), 3);
    let mut of_two = pieces("place: {lan: {split: true, hosts: [a, c]}}\n");
    of_two.sort_unstable();
    assert_eq!(of_two, [0, 2]);
}
