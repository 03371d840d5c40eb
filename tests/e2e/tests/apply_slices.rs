//! `apply` to slices: each comes, goes and changes by itself, and rules of those that stay are there again.

use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{Machine, machine, wait_until};

use super::apply::Applied;
use super::apply_edits::killed_at;

const LAB: &str = "name: sliced
nodes: {h1: {}, h2: {}, h3: {}, h4: {}}
switches: {s: {kind: openflow}}
links: [[h1, s], [h2, s], [h3, s], [h4, s]]
";
const RED: &str = "  red: {switches: {s: {ports: [h1, h2]}}, rules: 5}\n";
const BLUE: &str = "  blue: {switches: {s: {ports: [h3, h4]}}}\n";

fn with(slices: &[&str]) -> String {
    format!("{LAB}slices:\n{}", slices.concat())
}

/// Waits until the switch has these slices.
fn has(machine: &Machine, slices: &[&str]) {
    wait_until("the slicer has its switch", SOON, || {
        let run = machine.netloom(["slice", "show", "--json"]).finish();
        let shown = (run.status.code() == Some(0)).then(|| run.json())?;
        let names = shown["slices"].as_array()?.iter().map(|slice| slice["name"].as_str());
        let same = names.eq(slices.iter().map(|name| Some(*name)));
        (same && shown["switches"][0]["connected"] == true).then_some(())
    });
}

/// Forwards between the first two ports of a slice.
fn forward(machine: &Machine, slice: &str) {
    machine
        .ok(&format!("flow add s@{slice} in_port=1,actions=output:2 in_port=2,actions=output:1"));
}

/// One answer within five seconds: a question for a neighbour may be lost while a switch takes its rules.
fn reaches_now(machine: &Machine, from: &str, to: &str) -> bool {
    machine.exec(from, &["ping", "-c1", "-w5", to]).finish().status.success()
}

/// Waits for it.
fn reaches(machine: &Machine, from: &str, to: &str) {
    wait_until("an answer", SOON, || reaches_now(machine, from, to).then_some(()));
}

#[test]
fn slices_come_change_and_go_and_the_others_have_their_rules() {
    let machine = machine!();
    machine.up(LAB);
    reaches(&machine, "h1", "h3");
    // The first slice: the switch does what its rules say from now on.
    assert!(machine.applied_in_place(&with(&[RED])).starts_with("+ slice red"));
    has(&machine, &["red"]);
    forward(&machine, "red");
    reaches(&machine, "h1", "h2");
    assert!(!reaches_now(&machine, "h3", "h4"));
    let rules = |slice: &str| machine.ok(&format!("flow dump s@{slice} --plain")).text();
    let red = rules("red");
    // Another one before it in the file.
    assert!(machine.applied_in_place(&with(&[BLUE, RED])).starts_with("+ slice blue"));
    has(&machine, &["blue", "red"]);
    assert_eq!(rules("red"), red);
    reaches(&machine, "h1", "h2");
    forward(&machine, "blue");
    reaches(&machine, "h3", "h4");
    // A quota is a slice's own, and takes nothing from it.
    let more = RED.replace("rules: 5", "rules: 6");
    let told = machine.applied_in_place(&with(&[BLUE, &more]));
    assert!(told.starts_with("~ slice red: rules 6, was 5"), "{told}");
    has(&machine, &["blue", "red"]);
    assert_eq!(rules("red"), red);
    reaches(&machine, "h1", "h2");
    reaches(&machine, "h3", "h4");
    // What goes has no rules any more.
    let told = machine.applied_in_place(&with(&[&more]));
    assert!(told.starts_with("- slice blue"), "{told}");
    has(&machine, &["red"]);
    assert_eq!(rules("red"), red);
    wait_until("the rules of the other slice are gone", SOON, || {
        (!reaches_now(&machine, "h3", "h4")).then_some(())
    });
    // Without slices it is a switch of its own again.
    let told = machine.applied_in_place(LAB);
    assert!(told.starts_with("~ switch s: fail standalone, was secure\n- slice red"), "{told}");
    let status = machine.status();
    assert_eq!(status["state"], "up", "{status}");
    machine.netloom(["slice", "show"]).finish().code(1);
    machine.down();
}

#[test]
fn slices_come_with_their_switch_and_their_ports() {
    let machine = machine!();
    machine.up("name: sliced\nnodes: {h1: {}, h2: {}}\nlinks: [[h1, h2]]\n");
    let file = machine.file(&with(&[RED, BLUE]));
    machine.netloom(["apply".as_ref(), file.as_os_str(), "--yes".as_ref()]).finish().code(0);
    machine.netloom(["apply".as_ref(), file.as_os_str(), "--check".as_ref()]).finish().code(0);
    has(&machine, &["red", "blue"]);
    forward(&machine, "red");
    forward(&machine, "blue");
    reaches(&machine, "h1", "h2");
    reaches(&machine, "h3", "h4");
    machine.down();
}

#[test]
fn killed_while_slices_come_and_go_the_same_command_finishes() {
    let machine = machine!();
    let (one, two) = (with(&[RED]), with(&[BLUE, RED]));
    machine.up(&one);
    has(&machine, &["red"]);
    forward(&machine, "red");
    for step in 1.. {
        let (to, back) = if step % 2 == 1 { (&two, &one) } else { (&one, &two) };
        machine.applied_in_place(back);
        if !killed_at(&machine, "sliced", to, step) {
            assert!(step > 2, "{step}");
            break;
        }
        let file = machine.file(to);
        for flag in ["--yes", "--check"] {
            machine.netloom(["apply".as_ref(), file.as_os_str(), flag.as_ref()]).finish().code(0);
        }
        has(&machine, if step % 2 == 1 { &["blue", "red"] } else { &["red"] });
        reaches(&machine, "h1", "h2");
    }
    machine.down();
}
