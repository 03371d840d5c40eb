//! `netloom why --losses`: every place that lost packets is named with its cause, in all and from now on; events tell of it.

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, machine, needs, wait_until};
use serde_json::Value;

const LAB: &str = "\
name: losing
pool: {ipv6: none}
nodes:
  a: {}
  b: {}
  c: {}
links:
  - {ends: [a, b], loss: 100%, addresses: {a: 10.9.0.1/24, b: 10.9.0.2/24}}
  - {ends: [b, c], addresses: {b: 10.9.1.1/24, c: 10.9.1.2/24}}
";

const LINK: &str = "a:eth0--b:eth0";

/// Sends a datagram to a port that nobody has, and does not wait for an answer: kernels limit how many they send
/// (`icmp_msgs_per_sec`), older ones for all networks together.
const SEND: &str = r"
import socket
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.sendto(b'x', ('10.9.1.2', 9))
";

fn losses(machine: &Machine, more: &[&str]) -> Value {
    let words = ["why", "--losses", "--json"];
    machine.netloom(words.iter().chain(more)).finish().code(0).json()["losses"].clone()
}

fn found<'v>(losses: &'v Value, name: &str, cause: &str) -> Option<&'v Value> {
    losses.as_array()?.iter().find(|l| l["name"] == name && l["cause"] == cause)
}

#[test]
fn every_place_is_named_with_its_cause() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    assert_eq!(found(&losses(&machine, &[]), "c", "closed-port"), None);
    let mut events = Held::start(machine.netloom(["events", "--json"]));
    let first: Value = serde_json::from_str(&events.line()).expect("a snapshot");
    assert_eq!(first["kind"], "snapshot");
    machine.python("b", SEND, &[]).ok();
    let closed = wait_until("the datagram is lost", SOON, || {
        found(&losses(&machine, &[]), "c", "closed-port").cloned()
    });
    assert_eq!((&closed["kind"], &closed["packets"]), (&"node".into(), &1.into()), "{closed}");
    assert_eq!(closed["means"], "no program was at that UDP port");
    // Requests for an address that nobody hears.
    let ping = Held::start(machine.exec("a", &["ping", "-q", "-i", "0.2", "10.9.0.2"]));
    // The kernel of the other end may send something of its own meanwhile.
    let is_from_a = |loss: &&Value| {
        loss["name"] == LINK && loss["cause"] == "wire: loss" && loss["from"] == "a:eth0"
    };
    let lost = wait_until("the wire has lost some", SOON, || {
        losses(&machine, &[]).as_array()?.iter().find(is_from_a).cloned()
    });
    assert_eq!(lost["means"], "chosen by the link's impairment: loss 100%", "{lost}");
    // From now on: what the node lost before is not told again.
    let now = wait_until("more is lost meanwhile", SOON, || {
        let now = losses(&machine, &["--last", "1s"]);
        found(&now, LINK, "wire: loss").is_some().then_some(now)
    });
    assert_eq!(found(&now, "c", "closed-port"), None, "{now}");
    let text = machine.ok("why --losses").text();
    assert!(text.starts_with("lab losing: ") && text.contains("lost packets since each"), "{text}");
    assert!(text.contains(&format!("link {LINK} ")) && text.contains("node c "), "{text}");
    loop {
        let event: Value = serde_json::from_str(&events.line()).expect("an event");
        let places = event["losing"].as_array().cloned().unwrap_or_default();
        if places.iter().any(|place| place["name"] == LINK && place["from"] == "a:eth0") {
            break;
        }
    }
    drop((ping, events));
    machine.refused("why --losses a", 2, &["--losses"]);
    machine.refused("why a b --last 1s", 1, &["nothing of it was recorded"]);
    machine.refused("why --last 1s", 2, &["NODE"]);
    machine.refused("why --losses --last soon", 2, &["--last"]);
    machine.refused("why", 2, &["NODE"]);
    machine.down();
}
