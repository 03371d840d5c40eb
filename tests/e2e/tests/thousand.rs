//! A thousand nodes come up, are shown, talk, and go; in a long run ten thousand.

use std::fmt::Write as _;
use std::time::Duration;

use netloom_kit::{done, rounds};
use netloom_tests_e2e::capturing::Capturing;
use netloom_tests_e2e::{machine, root_only};
use serde_json::json;

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

/// How long a step of the long run may take on a busy machine.
const LONG: Duration = Duration::from_secs(3600);

/// As many nodes need more blocks of addresses than a pool has, and more files than may be open if each node took two.
#[test]
fn a_ring_with_chords_is_used() {
    root_only!("has more processes than an ordinary user may have");
    let machine = machine!();
    let nodes = usize::try_from(rounds(400)).expect("fits").min(10_000);
    let chord = nodes / 2 - 7;
    // The one router: its neighbours reach each other, and no other node has routes.
    let mut text = String::from("name: chords\nnodes:\n  n0: {}\n  n1: {forwarding: true}\n");
    (2..nodes).for_each(|node| writeln!(text, "  n{node}: {{}}").unwrap());
    text.push_str("links:\n");
    for step in [1, chord] {
        (0..nodes).for_each(|n| writeln!(text, "  - [n{n}, n{}]", (n + step) % nodes).unwrap());
    }
    machine
        .netloom(["up", machine.file(&text).to_str().expect("a path")])
        .bound(LONG)
        .finish()
        .code(0);
    let files =
        std::fs::read_dir(format!("/proc/{}/fd", machine.lab_process())).expect("its files");
    let files = files.count();
    assert!((nodes..nodes + 100).contains(&files), "{files} open files with {nodes} nodes");
    // Around the ring, by its router, and along the chord.
    let (near, far) = (format!("n{chord}"), format!("eth2.n{}", chord + 1));
    machine.answers("n0", &format!("eth2.{near}"));
    machine.answers("n0", &far);
    let capture = Capturing::start(&machine, "n1 -c 2", "n1.pcapng");
    machine.answers("n0", &far);
    assert_eq!(capture.finish(0).total("written"), 2);
    machine.netloom(["link", "set", "n0", "n1", "--down"]).bound(LONG).finish().code(0);
    let unheard = machine.exec("n0", &["ping", "-c", "1", "-W", "1", &far]).finish();
    assert!(!unheard.status.success(), "{unheard}");
    machine.netloom(["link", "set", "n0", "n1", "--up"]).bound(LONG).finish().code(0);
    machine.answers("n0", &far);
    let listed = machine.netloom(["ls", "--json"]).bound(LONG).finish().code(0).json();
    let figures = [&listed[0]["nodes"], &listed[0]["links"], &listed[0]["state"]];
    assert_eq!(figures, [&json!(nodes), &json!(2 * nodes), &json!("up")], "{listed}");
    let last = machine.netloom(["node", "show", &format!("n{}", nodes - 1), "--json"]);
    let last = last.bound(LONG).finish().code(0).json();
    assert_eq!(last["interfaces"].as_array().map(Vec::len), Some(4), "{last}");
    machine.netloom(["down", "chords"]).bound(LONG).finish().code(0);
    done("nodes of a lab", nodes);
    machine.down();
}
