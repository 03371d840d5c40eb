//! How few links are across, in labs whose best division is known.

use netloom_digest::splitmix::SplitMix64;

use crate::integration::labs::{Case, equal, random};

fn cut(text: &str, count: usize) -> usize {
    let case = Case::new(text, &equal(count));
    let placement = case.place().unwrap();
    case.plan.crossings(&placement).len()
}

#[test]
fn a_ring_of_cliques_is_cut_between_cliques() {
    // Numbered so that the order of the file says nothing: member m of clique c is n{m*16+c}.
    let text = "name: cliques
routing: none
nodes: {\"n{i}\": {for: {i: 160}}}
links:
  - {ends: [\"n{a*16+c}\", \"n{b*16+c}\"], for: {c: 0..15, a: 0..8, b: a+1..9}}
  - {ends: [\"n{c}\", \"n{16+c+1}\"], for: {c: 0..14}}
  - [n15, n16]
";
    for hosts in [2, 4, 8] {
        assert_eq!(cut(text, hosts), hosts, "{hosts} hosts");
    }
}

#[test]
fn a_grid_is_cut_into_compact_pieces() {
    let text = "name: grid
routing: none
nodes: {\"n{x}-{y}\": {for: {x: 20, y: 20}}}
links:
  - {ends: [\"n{x}-{y}\", \"n{x+1}-{y}\"], for: {x: 19, y: 20}}
  - {ends: [\"n{x}-{y}\", \"n{x}-{y+1}\"], for: {x: 20, y: 19}}
";
    // Two halves have 20 links between them, four quarters 40; nobody divides a grid better.
    assert!(cut(text, 2) <= 22, "{}", cut(text, 2));
    assert!(cut(text, 4) <= 44, "{}", cut(text, 4));
}

#[test]
fn hosts_stay_with_their_switch() {
    let text = "name: access
routing: none
nodes: {\"h{h}-{s}\": {for: {h: 20, s: 9}}, core: {}}
switches: {\"s{i}\": {for: {i: 9}}}
links:
  - {ends: [\"h{h}-{s}\", \"s{s}\"], for: {h: 20, s: 9}}
  - {ends: [core, \"s{i}\"], for: {i: 9}}
";
    // A switch a host: only the core's links to the others are across.
    assert_eq!(cut(text, 9), 8);
    assert!(cut(text, 3) <= 6, "{}", cut(text, 3));
}

#[test]
fn never_more_across_than_by_the_order_of_the_file() {
    let mut numbers = SplitMix64::new(4606);
    for round in 0..200 {
        // Nodes of equal weight, so that the order of the file is balanced, too.
        let text = random(&mut numbers).replace("limits: {cpu: 50%, memory: 64MiB}", "");
        let text = text.replace("limits: {cpu: 2, memory: 128MiB}", "");
        let text = text.replace("children: {nodes: {c: {}, d: {limits: {cpu: 50%}}}}", "");
        let count = 2 + numbers.index(8);
        let case = Case::new(&text, &equal(count));
        let placement = case.place().unwrap();
        let nodes = case.plan.nodes.len();
        let host = |at: usize| at * count / nodes;
        // A switch goes where most of its links are.
        let mut near = vec![vec![0_usize; count]; case.plan.switches.len()];
        let ends = |link: &netloom_model::plan::PlannedLink| {
            let of = |end: &netloom_model::plan::PlannedEnd| match end {
                netloom_model::plan::PlannedEnd::Node { node, .. } => Ok(node.get()),
                netloom_model::plan::PlannedEnd::Port { switch, .. } => Err(switch.get()),
                other => panic!("{other:?}"),
            };
            [of(&link.ends[0]), of(&link.ends[1])]
        };
        for link in &case.plan.links {
            if let [Ok(node), Err(switch)] = ends(link) {
                near[switch][host(node)] += 1;
            }
        }
        let best = |switch: usize| {
            let most = near[switch].iter().enumerate();
            most.max_by_key(|(at, links)| (**links, std::cmp::Reverse(*at))).unwrap().0
        };
        let at = |end: Result<usize, usize>| end.map_or_else(best, host);
        let by_order = case.plan.links.iter().filter(|link| {
            let [a, b] = ends(link);
            at(a) != at(b)
        });
        let by_order = by_order.count();
        let found = case.plan.crossings(&placement).len();
        assert!(found <= by_order, "round {round}: {found} > {by_order}\n{text}");
    }
}
