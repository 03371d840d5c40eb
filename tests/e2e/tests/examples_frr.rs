//! Examples in which FRR's daemons route: they find ways, and other ways when a link is cut.
use std::time::Duration;

use netloom_tests_e2e::{Machine, Run, is_root, machine, needs, wait_until, workspace_root};

/// How long daemons may take to notice a cut, and to tell each other.
const BOUND: Duration = Duration::from_secs(180);

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
    needs!("frr");
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
    needs!("frr");
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

/// Makes the image that `bgp.yaml` names, of the machine's FRR, and loads it.
fn load_frr(machine: &Machine) {
    let script = workspace_root().join("examples/frr-image.sh");
    let tar = machine.scratch().path().join("frr.tar");
    Run::new("sh").args([script.as_os_str(), tar.as_os_str()]).finish().code(0);
    let words = ["image".as_ref(), "load".as_ref(), tar.as_os_str(), "--name".as_ref()];
    machine.netloom(words.into_iter().chain(["lab/frr:1".as_ref()])).finish().code(0);
}

#[test]
fn routers_from_an_image_go_round_a_failed_link() {
    needs!("frr");
    let machine = machine!();
    load_frr(&machine);
    up(&machine, "bgp.yaml");
    // The daemons and their shell are the image's: the host's python is not there.
    assert_ne!(machine.exec("r1", &["python3", "--version"]).finish().status.code(), Some(0));
    wait_for_ways(&machine, "r1", "10.2.0.0/24", &["eth0"]);
    wait_for_ways(&machine, "r6", "10.1.0.0/24", &["eth0"]);
    assert!(wait_for_answer(&machine, "h1", "h2").contains("ttl=61"), "three routers");
    // The way leads over one of them.
    wait_until("r1 to have both neighbours", BOUND, || {
        let told = machine.exec("r1", &["vtysh", "-c", "show bgp ipv4 summary established"]).ok();
        told.contains("Displayed neighbors 2").then_some(())
    });

    machine.netloom(["link", "set", "short", "--down"]).finish().code(0);
    wait_for_ways(&machine, "r1", "10.2.0.0/24", &["eth1"]);
    wait_for_ways(&machine, "r6", "10.1.0.0/24", &["eth1"]);
    assert!(wait_for_answer(&machine, "h1", "h2").contains("ttl=59"), "five routers");
    machine.netloom(["link", "set", "short", "--up"]).finish().code(0);
    wait_for_ways(&machine, "r1", "10.2.0.0/24", &["eth0"]);
    machine.down();
}

#[test]
fn what_is_expected_of_routers_from_an_image_holds() {
    needs!("frr");
    let machine = machine!();
    load_frr(&machine);
    let file = workspace_root().join("examples/bgp.yaml");
    let junit = machine.scratch().path().join("out.xml");
    let words = ["test".as_ref(), file.as_os_str(), "--junit".as_ref(), junit.as_os_str()];
    let tested = machine.netloom(words).bound(Duration::from_secs(300)).finish().code(0).text();
    assert!(tested.ends_with("19 of 19 steps\n"), "{tested}");
    let xml = std::fs::read_to_string(&junit).expect("the results");
    assert!(xml.contains("tests=\"19\" failures=\"0\" errors=\"0\" skipped=\"0\""), "{xml}");
    assert!(xml.contains("name=\"traffic goes round\""), "{xml}");
    machine.untouched();
}
