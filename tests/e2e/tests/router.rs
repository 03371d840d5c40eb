//! Routers: FRR by a few keys, and packets that pass beside the router, compared with a kernel that forwards itself.

use std::path::Path;
use std::time::Duration;

use netloom_tests_e2e::{Machine, is_root, kill, machine, skip, wait_until, workspace_root};

/// How long daemons may take to find each other.
const BOUND: Duration = Duration::from_secs(90);

macro_rules! needs_frr {
    () => {
        if !Path::new("/usr/lib/frr/zebra").exists() {
            skip!("peer:frr: not installed");
        }
    };
}

/// A host on both sides of a router; the second one notes what it hears.
const PAIR: &str = "
name: pair
nodes:
  a: {files: {/probe.py: {from: PROBE}}}
  b:
    files: {/probe.py: {from: PROBE}}
    run: [[python3, /probe.py, hear]]
    ready: {file: /ready}
    sysctls: {net.ipv4.icmp_ratemask: '0', net.ipv6.icmp.ratelimit: '0'}
  r:
    kind: router
    daemon: none
    plane: PLANE
    sysctls: {net.ipv4.icmp_ratemask: '0', net.ipv6.icmp.ratelimit: '0'}
links:
  - ends: [a, r]
    addresses: {a: [10.1.0.2/24, 'fd01::2/64'], r: [10.1.0.1/24, 'fd01::1/64']}
  - ends: [r, b]
    addresses: {r: [10.2.0.1/24, 'fd02::1/64'], b: [10.2.0.2/24, 'fd02::2/64']}
    mtu: 1400
";

/// How many packets the router's own kernel has forwarded.
fn forwarded(machine: &Machine) -> u64 {
    let text = machine.exec("r", &["cat", "/proc/net/snmp", "/proc/net/snmp6"]).ok();
    let mut ip = text.lines().filter(|line| line.starts_with("Ip: "));
    let (names, values) = (ip.next().expect("names"), ip.next().expect("values"));
    let at = names.split(' ').position(|name| name == "ForwDatagrams").expect("a counter");
    let v4: u64 = values.split(' ').nth(at).and_then(|v| v.parse().ok()).expect("a number");
    let v6 = text.lines().find_map(|line| line.strip_prefix("Ip6OutForwDatagrams"));
    v4 + v6.and_then(|v| v.trim().parse::<u64>().ok()).expect("a number")
}

/// What hosts hear of packets of a seed through a router, and how many of them its kernel forwarded.
fn heard(machine: Machine, plane: &str, seed: &str) -> (String, u64) {
    let probe = workspace_root().join("tests/e2e/tests/router_probe.py");
    let text = PAIR.replace("PLANE", plane).replace("PROBE", &probe.display().to_string());
    machine.up(&text);
    for host in ["10.2.0.2", "fd02::2"] {
        machine.exec("a", &["ping", "-c", "3", "-i", "0.2", "-W", "5", host]).ok();
    }
    let nowhere = machine.exec("a", &["ping", "-c", "1", "-W", "5", "192.0.2.1"]).finish().text();
    assert!(nowhere.contains("Net Unreachable"), "{nowhere}");
    let before = forwarded(&machine);
    let mac = machine.exec("r", &["cat", "/sys/class/net/eth0/address"]).ok();
    let near = machine.exec("a", &["python3", "/probe.py", "send", seed, mac.trim()]).ok();
    let far = wait_until("what came through", BOUND, || {
        let read = machine.exec("b", &["cat", "/heard"]).finish();
        read.status.success().then(|| read.text())
    });
    let by_kernel = forwarded(&machine) - before;
    machine.down();
    (format!("near\n{near}far\n{far}"), by_kernel)
}

#[test]
fn packets_pass_beside_a_router_as_its_kernel_forwards_them() {
    let seed = "1";
    let (by_kernel, all) = heard(machine!(), "joined", seed);
    let (beside, few) = heard(machine!(), "separate", seed);
    for (expected, found) in by_kernel.lines().zip(beside.lines()) {
        assert_eq!(found, expected, "seed {seed}");
    }
    assert_eq!(beside.lines().count(), by_kernel.lines().count(), "seed {seed}");
    assert!(by_kernel.lines().count() > 150, "little came through: {by_kernel}");
    // Those with options and those that are too long are the kernel's.
    assert!(
        all > 50 && few < all * 2 / 3,
        "the kernel forwarded {few}, without a plane beside it {all}"
    );
}

#[test]
fn frr_runs_by_a_few_keys() {
    needs_frr!();
    let machine = machine!();
    let file = workspace_root().join("examples/router.yaml");
    machine.up_file(&file);
    // OSPF between two, BGP between two.
    for (router, protocol) in [("r1", "ospf"), ("r3", "bgp")] {
        wait_until("its daemon has told the kernel", BOUND, || {
            let told = machine.exec(router, &["ip", "route", "show", "proto", protocol]).ok();
            (!told.trim().is_empty()).then_some(())
        });
    }
    machine.down();
}

/// A stream by FRR's routes, which goes on while `disturb` does something to the routers.
fn none_lost(machine: Machine, disturb: impl FnOnce(&Machine)) {
    machine.up_file(&workspace_root().join("examples/plane-separation.yaml"));
    let ping = ["ping", "-q", "-i", "0.002", "-c", "5000", "-W", "5", "h2"];
    let report = std::thread::scope(|scope| {
        let stream = scope.spawn(|| machine.exec("h1", &ping).ok());
        disturb(&machine);
        stream.join().expect("the stream ends")
    });
    assert!(report.contains("5000 packets transmitted, 5000 received"), "{report}");
    machine.down();
}

#[test]
fn a_control_plane_moves_and_nothing_is_lost() {
    if !is_root() {
        skip!("root-only: attaches BPF programs");
    }
    let machine = machine!();
    machine
        .up("name: move\nnodes:\n  a:\n  b:\n  r: {kind: router, daemon: none, plane: separate}\n\
         links: [[a, r], [r, b]]\n");
    for version in ["-4", "-6"] {
        // What is to go on must have begun: the router has to know its neighbours.
        machine.exec("a", &["ping", version, "-c", "3", "-i", "0.2", "-W", "5", "b"]).ok();
        let ping = ["ping", version, "-q", "-i", "0.002", "-c", "2000", "-W", "5", "b"];
        let report = std::thread::scope(|scope| {
            let stream = scope.spawn(|| machine.exec("a", &ping).ok());
            for _ in 0..2 {
                machine.netloom(["node", "move-control", "r"]).finish().code(0);
            }
            stream.join().expect("the stream ends")
        });
        assert!(report.contains("2000 packets transmitted, 2000 received"), "{report}");
    }
    machine.down();
}

#[test]
fn a_router_of_ospf_that_moved_has_its_routes_again() {
    needs_frr!();
    if !is_root() {
        skip!("root-only: attaches BPF programs");
    }
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/plane-separation.yaml"));
    machine.netloom(["node", "move-control", "r2"]).finish().code(0);
    wait_until("OSPF has told the new node's kernel", BOUND, || {
        let told = machine.exec("r2", &["ip", "route", "show", "proto", "ospf"]).ok();
        (!told.trim().is_empty()).then_some(())
    });
    machine.exec("h1", &["ping", "-c", "3", "-i", "0.2", "-W", "5", "h2"]).ok();
    machine.down();
}

#[test]
fn processes_of_a_plane_end_and_nothing_is_lost() {
    needs_frr!();
    if !is_root() {
        skip!("root-only: attaches BPF programs");
    }
    none_lost(machine!(), |machine| {
        let of = |what: &str| {
            let folder = machine.scratch().runtime_dir().display().to_string();
            netloom_tests_e2e::with_command_line(what)
                .into_iter()
                .filter(|pid| {
                    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                    String::from_utf8_lossy(&line).contains(&folder)
                })
                .collect::<Vec<_>>()
        };
        let all: Vec<i32> = ["router-process", "flow-process"].into_iter().flat_map(of).collect();
        assert!(all.len() >= 8, "{all:?}");
        all.into_iter().for_each(kill);
    });
}
