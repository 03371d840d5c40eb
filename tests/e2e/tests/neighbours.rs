//! Nodes on one switch are neighbours of each other, in a table that all namespaces of the machine share.

use std::path::Path;

use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{Machine, machine, needs, ordinary_only, root_only, wait_until};

/// Nodes on a switch.
fn star(nodes: usize) -> String {
    let nodes: Vec<String> = (0..nodes).map(|node| format!("n{node}")).collect();
    let links: Vec<String> = nodes.iter().map(|node| format!("[{node}, s]")).collect();
    let nodes: Vec<String> = nodes.iter().map(|node| format!("{node}: {{}}")).collect();
    format!(
        "name: star\nnodes: {{{}}}\nswitches: {{s: {{}}}}\nlinks: [{}]\n",
        nodes.join(", "),
        links.join(", ")
    )
}

/// How much room the lab holds in the tables, by the counts of root's labs: those that have raised a limit, for each limit.
fn raises(machine: &Machine) -> usize {
    let own = machine.scratch().path().to_str().expect("a path").to_owned();
    let files = std::fs::read_dir("/run/netloom-host").into_iter().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let counts = texts.filter_map(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let limits = counts.flat_map(|count| count.as_object().cloned().unwrap_or_default());
    let ours = |(name, entry): &(String, serde_json::Value)| {
        name.contains("/neigh/default/gc_thresh") && entry["users"].to_string().contains(&own)
    };
    limits.filter(ours).count()
}

/// As many pairs as the kernel's default has no room for.
#[test]
fn forty_nodes_on_a_switch_all_reach_each_other() {
    root_only!("raises the kernel's limits");
    needs!("neighbour-tables");
    let machine = machine!();
    assert_eq!(machine.up(&star(40)).errors(), "");
    assert_eq!(raises(&machine), 4);
    wait_until("all pairs answer", SOON, || {
        let text = machine.netloom(["ping", "--all", "-4"]).finish().text();
        text.starts_with("IPv4: 1560 of 1560 pairs answer\n").then_some(())
    });
    machine.netloom(["down", "star"]).finish().code(0);
    assert_eq!(raises(&machine), 0);
    machine.down();
}

/// Another lab of the same machine has its room besides, also when the first one's process is killed.
#[test]
fn a_limit_is_raised_for_each_lab_and_lowered_by_its_end() {
    root_only!("raises the kernel's limits");
    needs!("neighbour-tables");
    let limit = || -> u32 {
        let path = Path::new("/proc/sys/net/ipv4/neigh/default/gc_thresh3");
        let text = std::fs::read_to_string(path).expect("read the limit");
        text.trim().parse().expect("a number")
    };
    let machine = machine!();
    machine.up(&star(40));
    machine.up(&star(41).replace("name: star", "name: other"));
    // Its own and the other one's, beside the kernel's: others may raise it further.
    assert!(limit() >= 1024 + 40 * 39 + 41 * 40, "{}", limit());
    let pid = machine.netloom(["status", "star", "--json"]).finish().code(0).json()["pid"].as_i64();
    netloom_tests_e2e::live::kill_and_wait(i32::try_from(pid.expect("a pid")).expect("a pid"));
    machine.netloom(["down", "star"]).finish().code(0);
    assert!(limit() >= 1024 + 41 * 40, "{}", limit());
    machine.netloom(["down", "other"]).finish().code(0);
    assert_eq!(raises(&machine), 0);
    machine.down();
}

/// An ordinary user cannot raise the limits, and is told. Root's labs of other tests may have raised the limit of IPv4
/// meanwhile: the warning then names IPv6 alone, for which no other test's lab makes so much room.
#[test]
fn an_ordinary_user_is_told_that_the_tables_are_too_small() {
    ordinary_only!("root raises the limits");
    needs!("neighbour-tables");
    let machine = machine!();
    let said = machine.up(&star(100)).errors();
    let why = |needs: &str| {
        format!(
            "warning: lab \"star\": if all its nodes talk to each other they have {needs} neighbours, and the kernel keeps "
        )
    };
    let (four, six) = ("net.ipv4.neigh.default.gc_thresh3=", "net.ipv6.neigh.default.gc_thresh3=");
    let both = said.contains(&why("9900 IPv4 and 19800 IPv6")) && said.contains(four);
    let alone = said.contains(&why("19800 IPv6")) && !said.contains(four);
    assert!(both || alone, "{said}");
    assert!(said.contains("as root: sysctl -w net.ipv") && said.contains(six), "{said}");
    machine.down();
}
