//! Examples in which FRR's daemons route: they find ways, and other ways when a link is cut.

use std::path::Path;
use std::time::Duration;

use netloom_tests_e2e::{Machine, is_root, machine, skip, wait_until, workspace_root};

/// How long daemons may take to notice a cut, and to tell each other.
const BOUND: Duration = Duration::from_secs(90);

/// Skips the test where FRR's daemons are not where the examples run them.
macro_rules! needs_frr {
    () => {
        if !Path::new("/usr/lib/frr/zebra").exists() {
            skip!("peer:frr: not installed");
        }
    };
}

fn up(machine: &Machine, name: &str) {
    machine.up_file(&workspace_root().join("examples").join(name));
}

/// The interfaces by which a node reaches a prefix, as its routing daemon has told the kernel.
fn ways(machine: &Machine, node: &str, prefix: &str) -> Vec<String> {
    let routes = machine.exec(node, &["ip", "-json", "route", "show", prefix]).finish().json();
    let mut found = vec![];
    for route in routes.as_array().expect("a list of routes") {
        let hops = route["nexthops"].as_array().cloned().unwrap_or_else(|| vec![route.clone()]);
        found.extend(hops.iter().filter_map(|hop| Some(hop["dev"].as_str()?.to_owned())));
    }
    found.sort();
    found
}

/// Waits until a node reaches a prefix by exactly these interfaces.
fn wait_for_ways(machine: &Machine, node: &str, prefix: &str, wanted: &[&str]) {
    let what = format!("{node} to reach {prefix} by {wanted:?}");
    wait_until(&what, BOUND, || (ways(machine, node, prefix) == wanted).then_some(()));
}

/// The link stays up and carries nothing, so that only the protocol can find out; an ordinary user
/// cannot do that to a running link, and sets the end down.
fn cut(machine: &Machine, node: &str, interface: &str) {
    if is_root() {
        let end = format!("{node}:{interface}");
        machine.netloom(["link", "set", &end, "--loss", "100%"]).finish().code(0);
    } else {
        machine.exec(node, &["ip", "link", "set", interface, "down"]).ok();
    }
}

fn wait_for_answer(machine: &Machine, from: &str, to: &str) -> String {
    wait_until(&format!("{from} to reach {to}"), BOUND, || {
        let done = machine.exec(from, &["ping", "-c", "1", "-W", "1", to]).finish();
        done.status.success().then(|| done.text())
    })
}

#[test]
fn ospf_finds_the_other_way() {
    needs_frr!();
    let machine = machine!();
    up(&machine, "frr-ospf.yaml");
    wait_for_ways(&machine, "r1", "10.2.0.0/24", &["eth1"]);
    wait_for_ways(&machine, "r2", "10.1.0.0/24", &["eth1"]);
    assert!(wait_for_answer(&machine, "h1", "h2").contains("ttl=62"), "two routers");
    let known = machine.exec("r1", &["vtysh", "-c", "show ip route ospf"]).ok();
    assert!(known.contains("O>* 10.2.0.0/24"), "{known}");

    cut(&machine, "r1", "eth1");
    wait_for_ways(&machine, "r1", "10.2.0.0/24", &["eth2"]);
    wait_for_ways(&machine, "r2", "10.1.0.0/24", &["eth2"]);
    assert!(wait_for_answer(&machine, "h1", "h2").contains("ttl=61"), "three routers");
    machine.down();
}

#[test]
fn bgp_takes_both_spines_and_then_one() {
    needs_frr!();
    let machine = machine!();
    up(&machine, "frr-bgp.yaml");
    for prefix in ["10.2.0.0/24", "10.3.0.0/24"] {
        wait_for_ways(&machine, "leaf1", prefix, &["eth1", "eth2"]);
    }
    let path = machine.exec("leaf1", &["vtysh", "-c", "show bgp ipv4 10.2.0.0/24"]).ok();
    assert!(path.contains("65100 65002"), "{path}");

    cut(&machine, "leaf1", "eth1");
    wait_for_ways(&machine, "leaf1", "10.2.0.0/24", &["eth2"]);
    wait_for_ways(&machine, "leaf2", "10.1.0.0/24", &["eth2"]);
    assert!(wait_for_answer(&machine, "h1", "h2").contains("ttl=61"), "leaf, spine, leaf");
    machine.down();
}
