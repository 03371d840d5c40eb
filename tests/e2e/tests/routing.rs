//! Computed routes in real kernels: flows are spread over paths of equal cost, or take the first.

use std::time::Duration;

use netloom_tests_e2e::{Machine, machine, wait_until, workspace_root};
use serde_json::Value;

/// Sends packets from different ports, a flow each.
const SEND: &str = "
import socket, sys
to, flows, packets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for flow in range(flows):
    family = socket.AF_INET6 if ':' in to else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.bind(('', 20000 + flow))
        for packet in range(packets):
            sender.sendto(b'x' * 100, (to, 9))
";
const FLOWS: u64 = 128;
const PACKETS: u64 = 20;
/// More than what comes by itself, and what hardly any spreading falls below.
const SOME: u64 = 6 * PACKETS;

/// What each core router has received.
fn received(machine: &Machine) -> Vec<u64> {
    let status = machine.status();
    let nodes = status["nodes"].as_array().expect("nodes");
    let cores = nodes.iter().filter(|n| n["name"].as_str().is_some_and(|n| n.starts_with("core")));
    let packets = |core: &Value| {
        let interfaces = core["interfaces"].as_array().expect("interfaces").iter();
        interfaces.filter_map(|i| i["traffic"]["rx_packets"].as_u64()).sum()
    };
    cores.map(packets).collect()
}

/// How many core routers carry flows between two pods, for each family.
fn carrying(machine: &Machine) -> Vec<usize> {
    let mut found = vec![];
    for family in ["-4", "-6"] {
        let resolver = if family == "-4" { "ahostsv4" } else { "ahostsv6" };
        let line = machine.exec("h0-0-0", &["getent", resolver, "h3-1-1"]).ok();
        let to = line.split_whitespace().next().expect("an address").to_owned();
        let (flows, packets) = (FLOWS.to_string(), PACKETS.to_string());
        // Until neighbours on the way are known, some are lost.
        let growth = wait_until("all pass a core router", Duration::from_secs(180), || {
            let before = received(machine);
            machine.python("h0-0-0", SEND, &[&to, &flows, &packets]).ok();
            let now = received(machine);
            let growth: Vec<u64> = now.iter().zip(&before).map(|(now, old)| now - old).collect();
            (growth.iter().sum::<u64>() >= FLOWS * PACKETS).then_some(growth)
        });
        found.push(growth.iter().filter(|packets| **packets > SOME).count());
    }
    found
}

/// Whether routers can hash flows differently from each other (Linux 6.11).
fn has_seed() -> bool {
    std::path::Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists()
}

#[test]
fn flows_are_spread_over_all_core_routers_of_a_fat_tree() {
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/fat-tree.yaml"));
    let all = if has_seed() { 4 } else { 2 };
    assert!(carrying(&machine).iter().all(|carrying| *carrying >= all));
    // Hosts have one way to everywhere.
    let policy = ["cat", "/proc/sys/net/ipv4/fib_multipath_hash_policy"];
    assert_eq!(machine.exec("h0-0-0", &policy).ok(), "0\n");
    assert_ne!(machine.exec("agg0-0", &policy).ok(), "0\n");
    machine.down();
}

#[test]
fn without_ecmp_all_flows_take_the_first_path() {
    let machine = machine!();
    let path = workspace_root().join("examples/fat-tree.yaml");
    let text = std::fs::read_to_string(path).expect("the example");
    machine.up(&format!("routing: {{ecmp: false}}\n{text}"));
    assert_eq!(carrying(&machine), [1, 1]);
    machine.down();
}
