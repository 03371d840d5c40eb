//! `netloom why --last`: where packets of the past were lost, from the lab's recording.

use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{Machine, machine, needs, wait_until};
use serde_json::Value;

/// Two hosts with a router between them, recorded from the beginning.
const LAB: &str = "
name: past-why
pool: {ipv6: none}
nodes:
  h1: {}
  r: {forwarding: true}
  web: {}
links: [[h1, r], [r, web]]
record: {keep: 64MiB}
";

/// The answer about the past that is as expected: the newest packets may be on their way, and do not count yet.
fn why(machine: &Machine, what: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, SOON, || {
        let run = machine.netloom(["why", "h1", "web", "--last", "24h", "--json"]).finish();
        let told = run.json();
        is_expected(&told).then_some(told)
    })
}

#[test]
fn a_fault_of_the_past_is_placed_and_what_stands_there_now_is_told_as_such() {
    needs!("nft");
    let machine = machine!();
    machine.up(LAB);
    machine.answers("h1", "web");
    let told = why(&machine, "packets that arrived", |told| told["verdict"] == "answered");
    assert!(told["recorded"]["packets"].as_u64() > Some(0), "{told:#}");
    assert_eq!((&told["there"]["lost"], &told["causes"]), (&Value::Null, &Value::Array(vec![])));
    // A rule of the router drops what it forwards.
    let rule = "add table ip fw; add chain ip fw f { type filter hook forward priority 0; }; add rule ip fw f drop";
    machine.exec("r", &["nft", rule]).finish().code(0);
    machine.exec("h1", &["ping", "-c1", "-W1", "web"]).finish().code(1);
    let told = why(&machine, "a packet that is lost", |told| told["verdict"] == "stopped");
    let cause = &told["causes"][0];
    assert_eq!((&cause["name"], &cause["place"]), (&"nft_drop".into(), &"node r".into()));
    assert_eq!(cause["basis"], "now", "{told:#}");
    assert_eq!(told["there"]["lost"], "r:eth1 out", "{told:#}");
    let last = told["there"]["last"].as_str().expect("a place");
    assert!(last == "h1:eth0 out" || last == "r:eth0 in", "{told:#}");
    let text = machine.netloom(["why", "h1", "web", "--last", "24h"]).finish().code(1).text();
    assert!(text.contains("as it is now; how it was then is not recorded"), "{text}");
    // Mended, and asked later: the place is that of then, and no cause is made up.
    machine.exec("r", &["nft", "delete table ip fw"]).finish().code(0);
    machine.answers("h1", "web");
    let passes = |told: &Value| {
        told["missing"][0].as_str().is_some_and(|text| text.contains("they pass there"))
    };
    let told = why(&machine, "what passed later", passes);
    assert_eq!(told["verdict"], "not_known", "{told:#}");
    assert_eq!(told["causes"], Value::Array(vec![]), "{told:#}");
    assert_eq!(told["there"]["lost"], "r:eth1 out", "{told:#}");
    // What is asked of now is another matter.
    machine.ok("why h1 web");
    machine.refused("why h1 web --since 12:00 --last 1s", 2, &["cannot be used with"]);
    machine.down();
}

#[test]
fn a_lab_without_a_recording_says_how_to_begin_one() {
    let machine = machine!();
    machine.up(&LAB.replace("record: {keep: 64MiB}", ""));
    machine.refused("why h1 web --last 5m", 1, &["nothing of it was recorded", "record start"]);
    machine.down();
}

/// The answer about the past for a service.
fn asked(machine: &Machine, service: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    wait_until(service, SOON, || {
        let words = ["why", "h1", "web", service, "--last", "24h", "--json"];
        let told = machine.netloom(words).finish().json();
        is_expected(&told).then_some(told)
    })
}

#[test]
fn a_request_that_is_refused_or_unanswered_did_not_arrive() {
    needs!("python3", "ip");
    let machine = machine!();
    machine.up(LAB);
    // Nothing was sent.
    let none = machine.netloom(["why", "h1", "web", "7/tcp", "--last", "1s"]).finish().code(1);
    assert!(none.text().contains(": no packet is recorded\n"), "{}", none.text());
    let connect = |port: u16, kind: &str| {
        let script = format!(
            "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_{kind})\ns.settimeout(1)\n\
             try:\n s.connect(('web', {port}))\n s.send(b'x')\n s.recv(1)\nexcept OSError: pass"
        );
        machine.exec("h1", &["python3", "-c", &script]).finish().code(0);
    };
    for (port, kind, service) in [(81, "STREAM", "81/tcp"), (82, "DGRAM", "82/udp")] {
        connect(port, kind);
        let told = asked(&machine, service, |told| told["verdict"] == "stopped");
        assert_eq!(told["causes"][0]["name"], "nothing_listens", "{told:#}");
        assert_eq!(told["causes"][0]["basis"], "now", "{told:#}");
    }
    machine.answers("h1", "web");
    // The server has no way back: its answers never leave.
    machine.exec("web", &["ip", "-4", "route", "flush", "proto", "static"]).finish().code(0);
    machine.exec("h1", &["ping", "-c1", "-W1", "web"]).finish().code(1);
    let told = asked(&machine, "icmp", |told| told["verdict"] == "stopped");
    let cause = &told["causes"][0];
    assert_eq!((&cause["name"], &cause["direction"]), (&"no_route".into(), &"back".into()));
    // What was sent while nobody recorded is told as such.
    machine.ok("record stop");
    machine.exec("h1", &["ping", "-c1", "-W1", "web"]).finish().code(1);
    let told = asked(&machine, "icmp", |_| true);
    let missing = told["missing"].to_string();
    assert!(missing.contains("on the lab was not recorded"), "{told:#}");
    machine.down();
}

#[test]
fn a_copy_of_a_mirror_session_is_not_a_hop() {
    let machine = machine!();
    machine.up("name: past-mirror
pool: {ipv6: none}
nodes: {h1: {}, web: {}, mon: {}}
switches: {s: {kind: shm, mirrors: [{from: h1, to: mon}]}}
links: [[h1, s], [web, s], [mon, s]]
record: {keep: 64MiB}
");
    machine.answers("h1", "web");
    machine.ok("link set web--s --down");
    machine.exec("h1", &["ping", "-c1", "-W1", "web"]).finish().code(1);
    let told = why(&machine, "a packet that is lost", |told| told["verdict"] == "stopped");
    assert_eq!(told["causes"][0]["name"], "cable_out", "{told:#}");
    assert_eq!(told["there"]["last"], "h1:eth0 out", "{told:#}");
    machine.down();
}
