//! What a node has of its own beside links to others: loopback addresses, interfaces that lead nowhere, a host name,
//! and what it forwards.

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Run, machine, wait_until};

const LAB: &str = "\
name: t
nodes:
  h: {}
  r1: {forwarding: true, loopback: [10.255.0.1, \"fd00:255::1\", 10.255.1.1/24]}
  r2: {forwarding: true, loopback: 10.255.0.2, hostname: second}
  far: {}
links:
  - [h, r1]
  - {ends: [r1, r2], mac: {r1: 02:00:00:00:0a:01}}
  - [r2, far]
  - {ends: [\"r2:stub\", nowhere], addresses: {r2: [192.0.2.1/24, \"2001:db8::1/64\"]}, mtu: 9000}
  - {ends: [nowhere, \"far:void\"], addresses: none}
";

/// Asserts that a run succeeds and prints `part`.
fn prints(run: Run, part: &str) {
    let text = run.ok();
    assert!(text.contains(part), "{part:?} is not in\n{text}");
}

#[test]
fn routes_lead_to_loopback_addresses_and_to_interfaces_that_lead_nowhere() {
    let machine = machine!();
    machine.up(LAB);
    for to in ["10.255.0.1", "fd00:255::1", "10.255.1.1", "10.255.0.2", "192.0.2.1", "2001:db8::1"]
    {
        for from in ["h", "far"] {
            machine.answers_by(if to.contains(':') { "-6" } else { "-4" }, from, to);
        }
    }
    let link = machine.exec("r2", &["ip", "-o", "link", "show", "stub"]).ok();
    assert!(link.contains("LOWER_UP") && link.contains("mtu 9000"), "{link}");
    // Nobody is there.
    machine.exec("r2", &["ping", "-c", "1", "-W", "1", "192.0.2.9"]).finish().code(1);
    // The kernel gives it that when it is ready.
    let void = wait_until("an address of the link", SOON, || {
        let void = machine.exec("far", &["ip", "-o", "address", "show", "void"]).ok();
        void.contains("inet6 fe80").then_some(void)
    });
    assert!(!void.contains("inet "), "{void}");
    let lo = machine.exec("r1", &["ip", "-o", "address", "show", "lo"]).ok();
    assert!(lo.contains("10.255.1.1/24") && lo.contains("10.255.0.1/32"), "{lo}");
    prints(machine.exec("h", &["getent", "hosts", "second"]), "r2");
    assert_eq!(machine.exec("r2", &["hostname"]).ok(), "second\n");
    prints(machine.netloom(["link", "list"]), "r2:stub--nowhere");
    prints(machine.netloom(["graph"]), "nowhere");
    machine.down();
}

#[test]
fn links_that_lead_nowhere_come_and_go_and_survive_their_node() {
    let machine = machine!();
    machine
        .up("name: t\nnodes: {a: {loopback: 10.255.0.1}, b: {}}\nlinks: [[a, b], [a, nowhere]]\n");
    let made =
        machine.netloom(["link", "create", "a:x", "nowhere", "--mac", "a=02:00:00:00:00:99"]);
    assert_eq!(made.ok(), "a:x--nowhere\n");
    let shown = machine.exec("a", &["ip", "-o", "link", "show", "x"]).ok();
    assert!(shown.contains("02:00:00:00:00:99"), "{shown}");
    let again = ["link", "create", "a", "b", "--mac", "a=02:00:00:00:00:99"];
    machine.netloom(again).finish().code(2).says("another interface has it");
    machine.netloom(["link", "create", "nowhere", "nowhere"]).finish().code(2).says("needs a node");
    let up = |name: &str| machine.exec("a", &["ip", "-o", "link", "show", name]).ok();
    machine.netloom(["link", "set", "a:x", "--down"]).finish().code(0);
    assert!(up("x").contains("NO-CARRIER"), "{}", up("x"));
    machine.netloom(["link", "set", "a:x", "--up"]).finish().code(0);
    machine.netloom(["link", "delete", "a:x"]).finish().code(0);
    let init = machine.inits().into_iter().find(|(name, _)| name == "a").unwrap().1;
    // `up` adopts one that still ends.
    kill_and_wait(init);
    let file = machine.scratch().path().join("lab.yaml");
    prints(machine.netloom(["up".as_ref(), file.as_os_str()]), "recreated: a");
    assert!(up("eth1").contains("LOWER_UP"), "{}", up("eth1"));
    machine.exec("b", &["ping", "-c", "1", "-W", "5", "10.255.0.1"]).finish();
    machine.answers("a", "10.255.0.1");
    machine.down();
}

#[test]
fn a_router_forwards_the_family_that_it_is_told_to() {
    let machine = machine!();
    machine.up(
        "name: t\nnodes: {a: {}, r: {forwarding: ipv6}, b: {}}\nlinks:\n  \
         - {ends: [a, r], addresses: {a: [10.1.0.2/24, \"fd01::2/64\"], r: [10.1.0.1/24, \"fd01::1/64\"]}}\n  \
         - {ends: [r, b], addresses: {b: [10.2.0.2/24, \"fd02::2/64\"], r: [10.2.0.1/24, \"fd02::1/64\"]}}\n",
    );
    let ping = |to: &str| machine.exec("a", &["ping", "-c", "1", "-W", "2", to]).finish();
    machine.answers_by("-6", "a", "fd02::2");
    machine.answers("a", "10.1.0.1");
    ping("10.2.0.2").code(2);
    let route = ["ip", "route", "add", "10.2.0.0/24", "via", "10.1.0.1"];
    machine.exec("a", &route).finish().code(0);
    ping("10.2.0.2").code(1);
    let status = machine.status();
    assert_eq!(status["nodes"][1]["forwarding"], "ipv6");
    prints(machine.netloom(["node", "show", "r"]), "ipv6 only");
    machine.down();
}
