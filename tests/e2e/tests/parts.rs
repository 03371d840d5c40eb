//! One node or link alone is shown as it is in the whole lab: from outside and from inside a node.

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Finished, machine, wait_until};
use serde_json::Value;

const LAB: &str = "
name: parts
nodes:
  tenant:
    children:
      limit: 2
      nodes:
        left: {run: [[tail, -f, /dev/null]]}
        right: {}
  a: {}
  b: {forwarding: true}
  dying: {}
switches: {k: {}, s: {kind: shm}}
links:
  - [tenant/left, tenant/right]
  - [tenant/left, a]
  - {ends: [a, b], delay: 1ms}
  - [a, k]
  - [b, k]
  - [b, s]
  - [dying, a]
";

/// What changes while nobody does anything.
const COUNTED: [&str; 13] = [
    "cpu_ns",
    "cpu_user_ns",
    "cpu_system_ns",
    "cpu_receive_ns",
    "load",
    "memory",
    "processes",
    "sockets",
    "sockets_counted",
    "traffic",
    "drops",
    "lost",
    "directions",
];

fn without_counts(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !COUNTED.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), without_counts(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_counts).collect(),
        other => other.clone(),
    }
}

/// Names of the nodes and links that are shown in another way alone than in the whole lab; `ask` runs a verb.
fn differing(ask: &dyn Fn(&[&str]) -> Finished) -> Vec<String> {
    let whole = ask(&["status", "--json"]).code(0).json();
    let mut differing = vec![];
    for (kind, list) in [("node", "nodes"), ("link", "links")] {
        for part in whole[list].as_array().expect("a list") {
            let name = part["name"].as_str().expect("a name");
            let alone = ask(&[kind, "show", name, "--json"]).code(0).json();
            if without_counts(&alone) != without_counts(part) {
                differing.push(format!("{kind} {name}"));
            }
        }
    }
    differing
}

/// Runs the program with these words, outside of the lab or inside a node.
type Asking<'a> = dyn Fn(&[&str]) -> Finished + 'a;

#[test]
fn a_part_alone_is_shown_as_in_the_whole_lab() {
    let machine = machine!();
    machine.up(LAB);
    machine.ok("link set a:eth2 --down");
    machine.ok("node move-interface b:eth1 tenant/right --name guest");
    let inits = machine.inits();
    let (_, dying) = inits.iter().find(|(name, _)| name == "dying").expect("a node");
    kill_and_wait(*dying);
    let outside = |words: &[&str]| machine.netloom(words).finish();
    let inside = |words: &[&str]| machine.inside("tenant", words.iter().copied()).finish();
    let asks: [&Asking<'_>; 2] = [&outside, &inside];
    for ask in asks {
        wait_until("all is shown alike", SOON, || differing(ask).is_empty().then_some(()));
    }
    let link = machine.ok("link show b:eth1--k --json").json();
    assert_eq!((&link["up"], &link["down"]), (&true.into(), &false.into()), "{link}");
    let link = machine.ok("link show a:eth2--k --json").json();
    assert_eq!((&link["up"], &link["down"]), (&false.into(), &true.into()), "{link}");
    let node = machine.ok("node show dying --json").json();
    assert_eq!((&node["alive"], &node["pid"]), (&false.into(), &Value::Null), "{node}");
    machine.refused("node show tenant/rigth", 1, &["tenant/rigth", "not in lab"]);
    machine.down();
}
