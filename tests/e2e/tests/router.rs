//! Routers: FRR by a few keys, and packets that pass beside the router, compared with a kernel that forwards itself.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{
    Machine, kill, machine, needs, root_only, signal, wait_until, workspace_root,
};
use rustix::process::Signal;

/// How long daemons may take to find each other.
const BOUND: Duration = Duration::from_secs(180);

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

/// Routes that lead nowhere, and what a host is told that follows them.
fn refusals(machine: &Machine) -> String {
    let routes = [
        ("198.51.100.0/26", &["unreachable"][..], &[][..]),
        ("198.51.100.64/26", &["prohibit"], &[]),
        ("198.51.100.128/26", &["blackhole"], &[]),
        ("198.51.100.192/26", &[], &["via", "10.2.0.99"]),
    ];
    let mut told = String::new();
    for (to, kind, by) in routes {
        // Only a black hole says nothing. The last one is told when the kernel has asked for the neighbour for three seconds.
        let wait = if kind == ["blackhole"] { "4" } else { "30" };
        let command = [&["ip", "route", "add"], kind, &[to], by].concat();
        machine.exec("r", &command).ok();
        let address = to.split('/').next().expect("an address");
        let address: Ipv4Addr = address.parse().expect("an address");
        let host = Ipv4Addr::from(u32::from(address) + 1).to_string();
        let ping = machine.exec("a", &["ping", "-n", "-c", "1", "-W", wait, &host]).finish().text();
        let line = ping.lines().find(|line| line.starts_with("From")).unwrap_or("no answer");
        told += &format!("{to} {kind:?}: {line}\n");
    }
    told
}

/// What hosts hear of packets of a seed through a router, and how many of them its kernel forwarded.
fn heard(machine: Machine, plane: &str, seed: &str) -> (String, u64) {
    let probe = workspace_root().join("tests/e2e/tests/router_probe.py");
    let text = PAIR.replace("PLANE", plane).replace("PROBE", &probe.display().to_string());
    machine.up(&text);
    for (family, host) in [("-4", "10.2.0.2"), ("-6", "fd02::2")] {
        machine.answers_by(family, "a", host);
        machine.exec("a", &["ping", "-c", "3", "-i", "0.2", "-W", "30", host]).ok();
    }
    let nowhere = machine.exec("a", &["ping", "-c", "1", "-W", "30", "192.0.2.1"]).finish().text();
    assert!(nowhere.contains("Net Unreachable"), "{nowhere}");
    // First, for Linux bounds how often it says such things.
    let refused = refusals(&machine);
    let before = forwarded(&machine);
    let mac = machine.exec("r", &["cat", "/sys/class/net/eth0/address"]).ok();
    let near = machine.exec("a", &["python3", "/probe.py", "send", seed, mac.trim()]).ok();
    let far = wait_until("what came through", BOUND, || {
        let read = machine.exec("b", &["cat", "/heard"]).finish();
        read.status.success().then(|| read.text())
    });
    let by_kernel = forwarded(&machine) - before;
    machine.down();
    (format!("near\n{near}far\n{far}refused\n{refused}"), by_kernel)
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

/// A router that knows two ways to one place.
const TWO_WAYS: &str = "
name: ways
nodes:
  a: {files: {/probe.py: {from: PROBE}}, routes: [{to: default, via: 10.1.0.1}]}
  b:
    files: {/probe.py: {from: PROBE}}
    run: [[python3, /probe.py, hear]]
    ready: {file: /ready}
    loopback: [203.0.113.1/32]
  r: {kind: router, daemon: none, plane: PLANE, sysctls: {net.ipv4.fib_multipath_hash_policy: 1}}
links:
  - {ends: [a, r], addresses: {a: 10.1.0.2/24, r: 10.1.0.1/24}}
  - {ends: ['r:eth1', 'b:eth0'], addresses: {r: 10.2.0.1/24, b: 10.2.0.2/24}}
  - {ends: ['r:eth2', 'b:eth1'], addresses: {r: 10.3.0.1/24, b: 10.3.0.2/24}}
";

/// Flows of a hundred that a router of two ways, weighted 3 to 1, sends by the first one.
fn share_of_the_first_way(machine: Machine, plane: &str) -> f64 {
    let probe = workspace_root().join("tests/e2e/tests/ecmp_probe.py");
    let text = TWO_WAYS.replace("PLANE", plane).replace("PROBE", &probe.display().to_string());
    machine.up(&text);
    for (neighbour, way) in [("10.2.0.2", "10.2.0.2"), ("10.3.0.2", "10.3.0.2")] {
        machine.answers("r", neighbour);
        machine.exec("b", &["ping", "-c", "1", "-I", way, "-W", "5", "10.1.0.2"]).finish();
    }
    let ways = "nexthop via 10.2.0.2 weight 3 nexthop via 10.3.0.2 weight 1".split(' ');
    let route: Vec<&str> = "ip route replace 203.0.113.1".split(' ').chain(ways).collect();
    machine.exec("r", &route).ok();
    machine.answers("a", "203.0.113.1");
    let before = forwarded(&machine);
    machine.exec("a", &["python3", "/probe.py", "send"]).ok();
    let heard = wait_until("what came through", BOUND, || {
        let read = machine.exec("b", &["cat", "/heard"]).finish();
        read.status.success().then(|| read.text())
    });
    let by_kernel = forwarded(&machine) - before;
    assert_eq!(by_kernel < 300, plane == "separate", "{plane}: the kernel forwarded {by_kernel}");
    machine.down();
    let (mut ways, mut packets) = (BTreeMap::<&str, &str>::new(), 0);
    for line in heard.lines() {
        let [way, flow, ttl] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!(ttl, "63", "{plane}: {line}");
        assert_eq!(*ways.entry(flow).or_insert(way), way, "{plane}: flow {flow} has two ways");
        packets += 1;
    }
    assert_eq!((ways.len(), packets), (400, 1200), "{plane}: flows, packets");
    ways.values().filter(|way| **way == "eth0").count() as f64 / 4.0
}

#[test]
fn flows_take_the_ways_of_a_router_by_their_weights_as_its_kernel_sends_them() {
    for (machine, plane) in [(machine!(), "joined"), (machine!(), "separate")] {
        let share = share_of_the_first_way(machine, plane);
        // Four standard deviations of 400 draws.
        assert!(
            (share - 75.0).abs() < 8.7,
            "{plane}: {share} % of the flows by the way of weight 3"
        );
    }
}

#[test]
fn frr_runs_by_a_few_keys() {
    needs!("frr");
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
    root_only!("attaches BPF programs");
    let machine = machine!();
    machine
        .up("name: move\nnodes:\n  a:\n  b:\n  r: {kind: router, daemon: none, plane: separate}\n\
         links: [[a, r], [r, b]]\n");
    for version in ["-4", "-6"] {
        // Traffic must have begun before: the router has to know its neighbours.
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
    needs!("frr");
    root_only!("attaches BPF programs");
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/plane-separation.yaml"));
    machine.netloom(["node", "move-control", "r2"]).finish().code(0);
    wait_until("OSPF has told the new node's kernel", BOUND, || {
        let told = machine.exec("r2", &["ip", "route", "show", "proto", "ospf"]).ok();
        (!told.trim().is_empty()).then_some(())
    });
    // One of its routes there does not mean that all are, or that others have heard of it.
    machine.answers("h1", "h2");
    machine.down();
}

#[test]
fn processes_of_a_plane_end_and_nothing_is_lost() {
    needs!("frr");
    root_only!("attaches BPF programs");
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

/// Frames a second of a stream: an interruption of two milliseconds loses one, and a busy machine forwards them in time. In
/// pauses below a millisecond the generator polls the clock, which would take a processor from all other tests.
const RATE: &str = "500pps";

/// Datagrams to ports of nobody that a node's kernel has got: a stream's.
fn arrived(machine: &Machine, node: &str) -> u64 {
    let text = machine.exec(node, &["cat", "/proc/net/snmp"]).ok();
    let mut udp = text.lines().filter(|line| line.starts_with("Udp: "));
    let (names, values) = (udp.next().expect("names"), udp.next().expect("values"));
    let at = names.split(' ').position(|name| name == "NoPorts").expect("a counter");
    values.split(' ').nth(at).and_then(|v| v.parse().ok()).expect("a number")
}

/// Sends from h1 to h2 while `disturb` does something to routers, and returns how many frames were sent and how many arrived.
fn stream(machine: &Machine, disturb: impl FnOnce()) -> (u64, u64) {
    let before = arrived(machine, "h2");
    let words = ["generate", "h1:eth0", "--to", "h2", "-d", "600s", "--rate", RATE, "--json"];
    let sender = Held::start(machine.netloom(words));
    let passed = |more: u64| {
        let from = arrived(machine, "h2");
        wait_until("the stream arrives", BOUND, || {
            (arrived(machine, "h2") >= from + more).then_some(())
        });
    };
    passed(1);
    disturb();
    // What the last disturbance leaves behind.
    passed(500);
    signal(sender.pid(), Signal::INT);
    let report: serde_json::Value = serde_json::from_str(&sender.rest()).expect("a report");
    assert_eq!(report["frames_refused"], 0, "{report}");
    let sent = report["frames_sent"].as_u64().expect("a number");
    let late = Instant::now() + Duration::from_secs(30);
    let all = wait_until("all that was sent arrives, or too late", BOUND, || {
        let all = arrived(machine, "h2") - before;
        (all >= sent || Instant::now() > late).then_some(all)
    });
    (sent, all)
}

/// Waits until OSPF has told a router's kernel its routes, and all of these routers have each other's news.
fn is_whole(machine: &Machine, router: &str, all: &[&str]) {
    wait_until("OSPF tells the router's kernel", BOUND, || {
        let found = machine.exec(router, &["ip", "route", "show", "proto", "ospf"]).finish();
        (found.status.success() && !found.text().trim().is_empty()).then_some(())
    });
    wait_until("neighbours have each other's news", BOUND, || {
        all.iter().all(|router| is_settled(machine, router)).then_some(())
    });
}

/// Whether a router's neighbours are full ones and have all that it sent.
fn is_settled(machine: &Machine, router: &str) -> bool {
    let asked = machine.exec(router, &["vtysh", "-c", "show ip ospf neighbor json"]).finish();
    let Ok(told) = serde_json::from_str::<serde_json::Value>(&asked.text()) else { return false };
    let neighbours = told["neighbors"].as_object().into_iter().flat_map(|all| all.values());
    let mut all = neighbours.flat_map(|found| found.as_array().into_iter().flatten());
    all.all(|one| {
        let full = one["state"].as_str().is_some_and(|state| state.starts_with("Full"));
        full && one["retransmitCounter"] == 0
    })
}

#[test]
fn control_planes_end_and_move_while_a_stream_goes_on() {
    needs!("frr");
    root_only!("attaches BPF programs");
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/plane-separation.yaml"));
    let routers = ["r1", "r2", "r3", "r4"];
    routers.iter().for_each(|router| is_whole(&machine, router, &routers));
    let (sent, arrived) = stream(&machine, || {
        for router in routers {
            // OSPF of both ends is killed, comes back, and finds its neighbours as they were.
            if ["r1", "r4"].contains(&router) {
                machine.exec(router, &["pkill", "-9", "ospfd"]).ok();
                wait_until("the daemon is back", BOUND, || {
                    let found = machine.exec(router, &["pgrep", "-x", "ospfd"]).finish();
                    found.status.success().then_some(())
                });
                is_whole(&machine, router, &routers);
            }
            // So does the whole node.
            let init = machine.init(router);
            kill(init);
            wait_until("the node is recreated", BOUND, || {
                // It has none while it is dead.
                let now = machine.node(router)["pid"].as_i64()?;
                (now != i64::from(init)).then_some(())
            });
            is_whole(&machine, router, &routers);
            // And it moves, after all others are whole.
            let moved = machine.netloom(["node", "move-control", router]).finish();
            assert!(
                moved.status.success() && !moved.text().contains("confirm"),
                "{}",
                moved.text()
            );
            is_whole(&machine, router, &routers);
        }
    });
    assert_eq!(arrived, sent, "frames are lost");
    // By the router's name its plane is shown like any switch.
    assert!(machine.ok("flow dump r1 --plain").text().contains("goto_table:3"));
    machine.down();
}

/// A daemon that is killed again and again: r2's of OSPF for IPv6. The others go on.
const LOOP: &str = "
name: loop
x-router: &router {kind: router, plane: separate, ospf: true}
nodes:
  a: {}
  b: {ready: {exec: [ping, -4, -c, '1', -W, '1', a], timeout: 90s}}
  r1: *router
  r2:
    <<: *router
    run: [[sh, -c, 'while :; do pkill -9 -x ospf6d; sleep 0.05; done']]
links: [[a, r1], [r1, r2], [r2, b]]
";

#[test]
fn a_daemon_that_ends_each_time_is_told_and_harms_nobody() {
    needs!("frr");
    let machine = machine!();
    machine.up(LOOP);
    let pauses = wait_until("it has been started again some times", BOUND, || {
        let node = machine.node("r2");
        let programs = node["programs"].as_array()?.clone();
        let program = programs.into_iter().find(|p| p.to_string().contains("ospf6d"))?;
        (program["restarts"].as_u64()? >= 3).then(|| program.to_string())
    });
    assert!(!pauses.is_empty());
    machine.exec("a", &["ping", "-4", "-c", "2", "-i", "0.2", "-W", "30", "b"]).ok();
    machine.down();
}
