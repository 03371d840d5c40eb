//! `netloom why --try`: what is proposed is done in a copy of the lab, which goes, and the lab stays as it is.

use std::time::Duration;

use netloom_tests_e2e::live::{Held, SOON, kill_and_wait, names};
use netloom_tests_e2e::{Machine, machine, needs, wait_until};
use serde_json::Value;

use crate::apply::sh;
use crate::why::{OFFICE, address};

const TRY: [&str; 7] = ["why", "h1", "web", "80/tcp", "-4", "--try", "--json"];

const CHAIN: &str =
    "nft add table inet fw; nft add chain inet fw f '{ type filter hook forward priority 0; }'; ";

fn attempt(machine: &Machine, port: &str, code: i32) -> Value {
    let words = TRY.map(|word| if word == "80/tcp" { port } else { word });
    machine.netloom(words).bound(Duration::from_secs(240)).finish().code(code).json()
}

fn labs(machine: &Machine) -> Vec<String> {
    names(&machine.netloom(["ls", "--json"]).finish().code(0).json())
}

#[test]
fn a_mend_that_helps_is_told_and_the_lab_stays_as_it_is() {
    needs!("python3", "nft", "ip");
    let machine = machine!();
    machine.up(OFFICE);
    machine.answers("h1", "web");
    let nothing = attempt(&machine, "80/tcp", 0);
    assert_eq!(nothing["tried"]["found"], "not_tried", "{nothing:#}");

    // A rule among others that have to be copied, too: sets, maps, chains that are jumped to.
    let rule = "nft add chain inet fw g; nft add rule inet fw f ip protocol icmp accept; \
                nft add rule inet fw f tcp dport vmap '{ 22 : accept, 80 : jump g }'; \
                nft add rule inet fw g tcp dport { 80, 81 } counter drop";
    sh(&machine, "r1", &format!("{CHAIN}{rule}"));
    let before = sh(&machine, "r1", "nft list ruleset");
    let found = attempt(&machine, "80/tcp", 0);
    let tried = &found["tried"];
    assert_eq!(found["verdict"], "stopped", "of the lab: {found:#}");
    assert_eq!(tried["found"], "helps", "{found:#}");
    assert_eq!(tried["after"]["verdict"], "answered", "{found:#}");
    assert_eq!(tried["mends"].as_array().map(Vec::len), Some(1), "{found:#}");
    assert_eq!(tried["not_copied"], serde_json::json!([]), "{found:#}");
    let after = sh(&machine, "r1", "nft list ruleset");
    let without_counts = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split(" counter ").next().unwrap_or(line));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(without_counts(&before), without_counts(&after));
    sh(&machine, "r1", "nft flush ruleset");

    // A route that went, on the way back, and a link that is down.
    sh(&machine, "web", "ip -4 route del default");
    let found = attempt(&machine, "80/tcp", 0);
    assert_eq!(found["tried"]["found"], "helps", "{found:#}");
    assert_eq!(found["causes"][0]["name"], "no_route", "{found:#}");
    machine.ok("link set r1 r2 --down");
    let found = attempt(&machine, "80/tcp", 0);
    assert_eq!(found["tried"]["found"], "helps", "two at once: {found:#}");
    assert_eq!(found["tried"]["mends"].as_array().map(Vec::len), Some(2), "{found:#}");

    assert_eq!(labs(&machine), ["why"], "copies are gone");
    machine.down();
}

/// Brings the office up, and has a router drop what goes to the server, whose address it gives.
fn up_with_blackhole(machine: &Machine) -> String {
    machine.up(OFFICE);
    machine.answers("h1", "web");
    let web = address(machine, "web", "eth0");
    sh(machine, "r2", &format!("ip route add blackhole {web}/32"));
    web
}

#[test]
fn a_mend_that_does_not_help_and_one_that_is_not_there_are_told() {
    needs!("python3", "nft", "ip");
    let machine = machine!();
    let web = up_with_blackhole(&machine);
    // Nothing listens at 8081: that no command mends.
    let found = attempt(&machine, "8081/tcp", 1);
    let tried = &found["tried"];
    assert_eq!(tried["found"], "does_not_help", "{found:#}");
    assert_eq!(tried["after"]["causes"][0]["name"], "nothing_listens", "{found:#}");
    let text =
        machine.netloom(["why", "h1", "web", "8081/tcp", "-4", "--try"]).finish().code(1).text();
    assert!(text.contains("it does not help") && text.contains("still: nothing_listens"), "{text}");
    sh(&machine, "r2", &format!("ip route del blackhole {web}/32"));
    let found = attempt(&machine, "8081/tcp", 1);
    assert_eq!(found["tried"]["found"], "not_tried", "{found:#}");

    let flags = ["why", "--losses", "--try"];
    machine.netloom(flags).finish().code(2);
    assert_eq!(labs(&machine), ["why"]);
    machine.down();
}

#[test]
fn a_copy_goes_when_who_tries_is_killed() {
    needs!("python3", "nft", "ip");
    let machine = machine!();
    // Not mended by what is proposed: it is tried for seconds.
    up_with_blackhole(&machine);
    let words = TRY.map(|word| if word == "80/tcp" { "8081/tcp" } else { word });
    let held = Held::start(machine.netloom(words));
    let is_up = || labs(&machine).len() == 2;
    wait_until("the copy is up", SOON, || is_up().then_some(()));
    kill_and_wait(held.pid());
    drop(held);
    wait_until("the copy is gone", SOON, || (labs(&machine) == ["why"]).then_some(()));
    machine.down();
}
