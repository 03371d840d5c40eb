//! What a node writes has its bound, and is nobody else's.

use netloom_tests_e2e::{is_root, machine};

/// Places that a node writes to, of different mounts.
const FILL: &str =
    "for place in /srv /run /dev/shm; do head -c 4194304 /dev/zero >$place/full; done 2>&1";

#[test]
fn a_node_that_fills_its_own_leaves_others_theirs() {
    let machine = machine!();
    machine.up("name: filled\nnodes:\n  a: {storage: 2MiB}\n  b: {storage: 8MiB}\n  \
         c: {children: {nodes: {d: {storage: 1MiB}, e: {}}}}\n");
    for full in ["a", "c/d"] {
        let filled = machine.exec(full, &["sh", "-c", FILL]).finish();
        assert!(!filled.status.success(), "{full} has room\n{filled}");
        assert_eq!(filled.text().matches("No space left").count(), 3, "{full}\n{filled}");
    }
    let all = "for place in /srv /run /dev/shm; do head -c 1500000 /dev/zero >$place/fits; done";
    for other in ["b", "c", "c/e"] {
        machine.exec(other, &["sh", "-c", all]).finish().code(0);
    }
    // And it is the node's own again when it has made room.
    machine.exec("a", &["sh", "-c", "rm /srv/full; echo fits >/srv/new"]).finish().code(0);
    machine.down();
}

#[test]
fn the_bound_is_a_quarter_of_the_memory_where_none_is_said() {
    let machine = machine!();
    machine.up("name: quarter\nnodes: {a: {}, b: {storage: 5MiB}}\n");
    let kib = |node: &str| -> u64 {
        let size = machine.exec(node, &["stat", "-f", "-c", "%b %S", "/run"]).ok();
        let numbers: Vec<u64> = size.split_whitespace().map(|n| n.parse().unwrap()).collect();
        numbers[0] * numbers[1] / 1024
    };
    let memory = std::fs::read_to_string("/proc/meminfo").expect("read");
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|text| text.trim().strip_suffix(" kB")).expect("a number of kB");
    let quarter = total.parse::<u64>().expect("a number") / 4;
    assert!(kib("a").abs_diff(quarter) <= 64, "{} of {quarter} KiB", kib("a"));
    assert_eq!(kib("b"), 5 * 1024);
    let user = if is_root() { "root" } else { "an ordinary user" };
    println!("{} KiB for {user}", kib("a"));
    machine.down();
}
