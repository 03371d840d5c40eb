//! An earlier placement is kept as far as it can be.

use netloom_digest::splitmix::SplitMix64;
use netloom_model::plan::Placement;
use netloom_placement::Earlier;

use crate::integration::labs::{Case, equal, hosts, random};

/// Nodes of the first that are elsewhere in the second.
fn moved(first: (&Case, &Placement), second: (&Case, &Placement)) -> Vec<String> {
    let names = first.0.plan.nodes.iter().map(|node| node.name.clone());
    let there = names.filter(|name| second.0.plan.node(name).is_some());
    there.filter(|name| first.0.host(first.1, name) != second.0.host(second.1, name)).collect()
}

#[test]
fn the_same_lab_stays_where_it_is() {
    let mut numbers = SplitMix64::new(4605);
    for _ in 0..100 {
        let case = Case::new(&random(&mut numbers), &equal(1 + numbers.index(9)));
        let placement = case.place().unwrap();
        assert_eq!(case.place_after(&case.earlier(&placement)).unwrap(), placement);
    }
}

/// Capacities push nodes past a host's share; that must not make the next call move them back.
#[test]
fn the_same_lab_stays_where_hosts_have_little_room() {
    let text = "nodes: {\"n{i}\": {for: {i: 9}, limits: {memory: 64MiB, cpu: 50%}}, m: {children: {nodes: {c: {}}}}}\n\
                switches: {s1: {}, s2: {}}\n\
                links: [{ends: [\"n{i}\", s1], for: {i: 9}}, [n0, n1], [n1, m], [m, s2], [m/c, n3]]\n\
                place: {s1: {split: true}}\n";
    let mut numbers = SplitMix64::new(4606);
    let mut placed = 0;
    for _ in 0..300 {
        let all: Vec<String> = (0..2 + numbers.index(3))
            .map(|_| match numbers.index(3) {
                0 => String::new(),
                1 => format!("capacity: {{cpu: {}}}", 1 + numbers.index(5)),
                _ => format!(
                    "capacity: {{memory: {}MiB, cpu: {}}}",
                    64 * (1 + numbers.index(9)),
                    1 + numbers.index(5)
                ),
            })
            .collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let case = Case::new(text, &hosts(&all));
        let Ok(placement) = case.place() else { continue };
        placed += 1;
        assert_eq!(case.place_after(&case.earlier(&placement)).unwrap(), placement, "{all:?}");
    }
    assert!(placed > 100, "{placed}");
}

#[test]
fn one_node_more_moves_no_other_and_goes_to_its_neighbour() {
    let grid = |more: &str| {
        format!(
            "name: grid\nrouting: none\nnodes: {{\"n{{x}}-{{y}}\": {{for: {{x: 12, y: 12}}}}{}}}\nlinks:\n\
             - {{ends: [\"n{{x}}-{{y}}\", \"n{{x+1}}-{{y}}\"], for: {{x: 11, y: 12}}}}\n\
             - {{ends: [\"n{{x}}-{{y}}\", \"n{{x}}-{{y+1}}\"], for: {{x: 12, y: 11}}}}\n{more}",
            if more.is_empty() { "" } else { ", new: {}" }
        )
    };
    let before = Case::new(&grid(""), &equal(4));
    let placement = before.place().unwrap();
    for at in ["n0-0", "n5-5", "n11-3"] {
        let after = Case::new(&grid(&format!("- [new, {at}]\n")), &equal(4));
        let second = after.place_after(&before.earlier(&placement)).unwrap();
        assert_eq!(moved((&before, &placement), (&after, &second)), Vec::<String>::new());
        assert_eq!(after.host(&second, "new"), before.host(&placement, at));
    }
}

#[test]
fn a_host_that_is_gone_moves_only_its_nodes_and_a_pin_only_what_it_pins() {
    let text = "name: pairs\nnodes: {\"h{i}\": {for: {i: 40}}}\nlinks: [{ends: [\"h{2*i}\", \"h{2*i+1}\"], for: {i: 20}}]\n";
    let before = Case::new(text, &equal(5));
    let placement = before.place().unwrap();
    assert_eq!(before.counts(&placement), [8; 5]);
    let fewer = Case::new(text, &equal(4));
    let second = fewer.place_after(&before.earlier(&placement)).unwrap();
    let gone = moved((&before, &placement), (&fewer, &second));
    assert!(gone.iter().all(|name| before.host(&placement, name) == "e"), "{gone:?}");
    assert_eq!(gone.len(), 8);
    let pinned = Case::new(&format!("{text}place: {{h0: c}}\n"), &equal(5));
    let third = pinned.place_after(&before.earlier(&placement)).unwrap();
    let moves = moved((&before, &placement), (&pinned, &third));
    assert!(moves.iter().all(|name| name == "h0"), "{moves:?}");
    assert_eq!(pinned.host(&third, "h0"), "c");
}

#[test]
fn a_capacity_that_shrank_moves_what_does_not_fit() {
    let text = "name: shrunk\nnodes: {\"h{i}\": {for: {i: 8}, limits: {memory: 100MiB}}}\n";
    let before = Case::new(text, &hosts(&["capacity: {memory: 1GiB}", "capacity: {memory: 1GiB}"]));
    let placement = before.place().unwrap();
    let after =
        Case::new(text, &hosts(&["capacity: {memory: 210MiB}", "capacity: {memory: 1GiB}"]));
    let second = after.place_after(&before.earlier(&placement)).unwrap();
    assert_eq!(after.counts(&second), [2, 6]);
    assert_eq!(moved((&before, &placement), (&after, &second)).len(), 2);
}

#[test]
fn what_is_no_placement_or_another_lab_s_is_refused() {
    let case = Case::new("name: one\nnodes: {h1: {}}\n", &equal(1));
    let account = |lab: &str| {
        let placement = case.place().unwrap();
        let mut found = netloom_placement::account(&case.plan, &[], &case.hosts, &placement);
        found.lab = lab.to_owned();
        netloom_form::to_string_pretty(&found).unwrap()
    };
    let read = |text: &str| Earlier::read("p.json", text.as_bytes(), "one");
    let earlier = read(&account("one")).unwrap();
    assert_eq!(earlier.hosts.into_iter().collect::<Vec<_>>(), [("h1".into(), "a".into())]);
    for (text, words) in [
        ("", "p.json: EOF while parsing"),
        ("{}", "an earlier placement is what `netloom check --on --json` printed"),
        ("{\"lab\": \"one\", \"x\": 1}", "p.json: x: unknown field"),
        (&account("two"), "p.json: this is a placement of lab \"two\", not of \"one\""),
    ] {
        let told = read(text).unwrap_err().to_string();
        assert!(told.contains(words), "{text}: {told}");
    }
}
