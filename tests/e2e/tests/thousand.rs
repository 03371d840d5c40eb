//! A thousand nodes come up, are shown, talk, and go.

use std::fmt::Write as _;
use std::time::Duration;

use netloom_tests_e2e::machine;

const NODES: usize = 1000;

#[test]
fn a_ring_of_a_thousand_nodes() {
    let machine = machine!();
    let mut text = String::from("name: thousand\nnodes:\n");
    for node in 0..NODES {
        writeln!(text, "  n{node}: {{}}").unwrap();
    }
    text.push_str("links:\n");
    for node in 0..NODES {
        writeln!(text, "  - [n{node}, n{}]", (node + 1) % NODES).unwrap();
    }
    machine.up(&text);
    assert_eq!(machine.inits().len(), NODES);
    // A name means the first interface, which a node shares with the one before it.
    for (from, to) in [("n0", "n1"), ("n499", "n500"), ("n998", "n999")] {
        machine.answers(from, to);
    }
    let down = machine.netloom(["down", "thousand"]).bound(Duration::from_secs(300));
    down.finish().code(0);
    machine.down();
}
