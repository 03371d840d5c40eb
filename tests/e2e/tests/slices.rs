//! Slices of a lab's switch while things are killed: packets go on, and what slices have is there again.

use std::time::{Duration, Instant};

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, machine, wait_until};
use serde_json::Value;

const LAB: &str = "
name: sliced
nodes: {h1: {}, h2: {}, h3: {}, h4: {}}
switches: {s: {kind: openflow}}
links: [[h1, s], [h2, s], [h3, s], [h4, s]]
slices:
  red: {switches: {s: {ports: [h1, h2]}}, rules: 5}
  blue: {switches: {s: {ports: [h3, h4]}}, rate: 1gbit}
";

/// What the slicer says; nothing while there is none, or its switch is not there.
fn shown(machine: &Machine) -> Option<Value> {
    let run = machine.netloom(["slice", "show", "--json"]).finish();
    let shown = (run.status.code() == Some(0)).then(|| run.json())?;
    (shown["switches"][0]["connected"] == Value::Bool(true)).then_some(shown)
}

fn slicer(machine: &Machine) -> i32 {
    let pid = wait_until("the slicer has its switch", SOON, || shown(machine))["pid"].as_i64();
    i32::try_from(pid.expect("a pid")).expect("a pid")
}

/// The lab with rules that forward in both slices.
fn up(machine: &Machine) {
    machine.up(LAB);
    slicer(machine);
    for slice in ["red", "blue"] {
        machine.ok(&format!(
            "flow add s@{slice} in_port=1,actions=output:2 in_port=2,actions=output:1"
        ));
    }
    // Rules of one slice that need an entry for each of its ports, in two tables.
    machine.ok("flow add s@blue priority=1,actions=goto_table:1 table=1,actions=flood");
}

/// What both slices, and the switch itself, say of their rules.
fn rules(machine: &Machine) -> String {
    ["s@red", "s@blue", "s"]
        .map(|of| machine.ok(&format!("flow dump {of} --plain")).text())
        .concat()
}

/// A stream in each slice, which goes on while `disturb` does something; no packet of it is lost.
fn none_lost(machine: &Machine, disturb: impl FnOnce()) {
    let stream = |from: &str, to: &str| {
        let ping = ["ping", "-4", "-q", "-i", "0.002", "-c", "2000", "-W", "5", to];
        machine.exec(from, &ping).bound(Duration::from_secs(120)).ok()
    };
    let reports = std::thread::scope(|scope| {
        let arrived = || {
            let received = |node: &str| {
                machine.node(node)["interfaces"][0]["traffic"]["rx_packets"].as_u64().unwrap_or(0)
            };
            ["h2", "h4"].map(received)
        };
        let before = arrived();
        let streams = [scope.spawn(|| stream("h1", "h2")), scope.spawn(|| stream("h3", "h4"))];
        wait_until("both streams are under way", SOON, || {
            let now = arrived();
            (0..2).all(|side| now[side] > before[side] + 20).then_some(())
        });
        disturb();
        streams.map(|stream| stream.join().expect("the stream ends"))
    });
    for report in reports {
        assert!(report.contains("2000 packets transmitted, 2000 received"), "{report}");
    }
}

#[test]
fn a_killed_slicer_goes_on_where_it_was_while_packets_pass() {
    let machine = machine!();
    up(&machine);
    let before = rules(&machine);
    none_lost(&machine, || {
        for _ in 0..3 {
            let old = slicer(&machine);
            kill_and_wait(old);
            let next = wait_until("another slicer", SOON, || {
                shown(&machine).filter(|shown| shown["pid"] != old)
            });
            let resumed = &next["switches"][0]["resumed"];
            assert_eq!((&resumed["rules"], &resumed["lost"]), (&6.into(), &0.into()), "{resumed}");
            assert_eq!(
                (&resumed["made"], &resumed["removed"]),
                (&0.into(), &0.into()),
                "{resumed}"
            );
            assert_eq!(rules(&machine), before);
        }
    });
    // The rules are the slices': they count for quotas, and are deleted by their owner.
    let full = "flow add s@red priority=1,actions=flood priority=2,actions=flood";
    machine.refused(full, 1, &["OFPFMFC_TABLE_FULL"]);
    machine.ok("flow del s@blue --all");
    assert!(!rules(&machine).contains("goto_table"));
    machine.down();
}

#[test]
fn slices_go_on_without_their_lab_process_and_nothing_is_left_of_them() {
    let machine = machine!();
    up(&machine);
    let (before, old) = (rules(&machine), slicer(&machine));
    none_lost(&machine, || {
        kill_and_wait(machine.lab_process());
        // Clients of a slice find it as it was.
        assert_eq!((slicer(&machine), rules(&machine)), (old, before.clone()));
        machine.ok("flow add s@red priority=9,arp,actions=flood");
        machine.ok("flow del s@red arp");
        machine.up(LAB);
        assert_eq!((slicer(&machine), rules(&machine)), (old, before.clone()));
        // Neither is there: the next lab process starts a slicer, which goes on.
        kill_and_wait(machine.lab_process());
        kill_and_wait(old);
        machine.up(LAB);
        assert_ne!(slicer(&machine), old);
        assert_eq!(rules(&machine), before);
    });
    kill_and_wait(machine.lab_process());
    machine.down();
}

#[test]
fn one_slice_is_shown_by_its_name() {
    let machine = machine!();
    up(&machine);
    for verb in ["show", "stats"] {
        let all = machine.ok(&format!("slice {verb} --json")).json();
        let one = machine.ok(&format!("slice {verb} red --json")).json();
        let names = |told: &Value| {
            let list = told.get("slices").unwrap_or(told).as_array().expect("a list").clone();
            list.iter().map(|s| s["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&all), names(&one)),
            (vec!["red".into(), "blue".into()], vec!["red".into()])
        );
    }
    let refused = machine.netloom(["slice", "show", "green"]).finish().code(2);
    refused.says("slice \"green\": lab \"sliced\" has red, blue");
    // A path is a file of slices.
    machine
        .netloom(["slice", "show", "./red"])
        .finish()
        .code(1)
        .says("no slicer runs with this file");
    machine.down();
}

#[test]
fn a_slice_sends_no_more_than_its_rate_and_the_other_all_of_its_packets() {
    let machine = machine!();
    machine.up(&LAB.replace("rate: 1gbit", "rate: 400kbit"));
    slicer(&machine);
    for slice in ["red", "blue"] {
        machine.ok(&format!("flow add s@{slice} actions=flood"));
    }
    let received = |node: &str| -> u64 {
        let read = ["cat", "/sys/class/net/eth0/statistics/rx_packets"];
        machine.exec(node, &read).ok().trim().parse().expect("a number")
    };
    let before = [received("h2"), received("h4")];
    // Twice 2 Mb/s for three seconds: little enough for a busy machine.
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (from, to) in [("h1", "h2"), ("h3", "h4")] {
            let words = format!("generate {from}:eth0 --to {to} --size 1250 --rate 200pps -c 600");
            let machine = &machine;
            scope.spawn(move || machine.ok(&words));
        }
    });
    wait_until("all frames of the other", SOON, || {
        (received("h2") - before[0] >= 600).then_some(())
    });
    let blue = received("h4") - before[1];
    // 40 a second, and twelve at once; fewer if a busy machine had them sent late and at once.
    let most = 20 + 40 * (begun.elapsed().as_secs() + 1);
    assert!((20..=most.min(500)).contains(&blue), "{blue} frames, {most} at most");
    machine.down();
}
