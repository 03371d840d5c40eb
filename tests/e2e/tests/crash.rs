//! What a kill leaves standing, and what a new `up` makes of it.

use std::io::{BufRead, BufReader};

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, kill, machine, pair, wait_until, with_command_line};

/// The lab process of the only lab.
fn lab_process(machine: &Machine, lab: &str) -> i32 {
    let file = machine.scratch().runtime_dir().join(lab).join("lab.pid");
    let text = std::fs::read_to_string(&file).expect("lab.pid");
    text.trim().parse().expect("a pid")
}

#[test]
fn traffic_goes_on_without_the_lab_process_and_up_adopts() {
    let machine = machine!();
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let inits = machine.inits();
    machine.answers("a", "b");
    let ping = ["ping", "-i", "0.2", "-c", "10", "b"];
    let mut running = machine.exec("a", &ping).spawn();
    let mut lines = BufReader::new(running.stdout.take().expect("stdout is piped")).lines();
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line.contains("icmp_seq=1")));
    kill(lab_process(&machine, "pair"));
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(rest.iter().any(|line| line.contains(" 0% packet loss")), "{rest:?}");
    assert!(running.wait().expect("wait").success());
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    assert_eq!(machine.inits(), inits, "the running nodes are adopted");
    machine.all_reach_all();
    machine.down();
}

#[test]
fn a_dead_lab_is_taken_down_completely() {
    let machine = machine!();
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    kill(lab_process(&machine, "pair"));
    machine.netloom(["down", "pair"]).finish().code(0);
    machine.untouched();
}

#[test]
fn a_node_whose_init_died_is_rebuilt() {
    let machine = machine!();
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let before = machine.inits();
    let pid = |inits: &[(String, i32)], name: &str| {
        inits.iter().find(|(node, _)| node == name).map(|(_, pid)| *pid).expect("the node")
    };
    // One that still ends is adopted.
    kill_and_wait(pid(&before, "a"));
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let after = machine.inits();
    assert_ne!(pid(&after, "a"), pid(&before, "a"));
    assert_eq!(pid(&after, "b"), pid(&before, "b"));
    machine.all_reach_all();
    machine.down();
}

/// The remains when the lab process is killed while it makes a node: its init, without its links, and the note of it.
#[test]
fn a_node_that_was_being_made_is_made_anew() {
    let machine = machine!();
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let before = machine.inits();
    let folder = machine.scratch().runtime_dir().join("pair");
    let note = folder.join("making.json");
    assert!(!note.exists(), "nothing is being made");
    kill_and_wait(lab_process(&machine, "pair"));
    let state = std::fs::read(folder.join("state.json")).expect("the state");
    let state: serde_json::Value = serde_json::from_slice(&state).expect("JSON");
    let nodes = state["plan"]["nodes"].as_array().expect("nodes");
    let b = nodes.iter().find(|node| node["name"] == "b").expect("b");
    std::fs::write(&note, format!("[{}]", b["id"])).expect("write the note");
    machine.up(&pair("run: [[tail, -f, /dev/null]]"));
    let after = machine.inits();
    let same = |node: &str| {
        let of = |inits: &[(String, i32)]| inits.iter().find(|(name, _)| name == node).map(|i| i.1);
        of(&before) == of(&after)
    };
    assert!(same("a") && !same("b"), "{before:?} {after:?}");
    assert!(!note.exists(), "it is made");
    machine.all_reach_all();
    machine.down();
}

#[test]
fn both_the_lab_process_and_an_init_may_die() {
    let machine = machine!();
    machine.up(&pair(""));
    let inits = machine.inits();
    kill(lab_process(&machine, "pair"));
    kill_and_wait(inits[0].1);
    machine.up(&pair(""));
    machine.all_reach_all();
    machine.down();
}

/// A lab with a wire whose name no other lab has: the process list tells its processes apart.
fn wired() -> (String, String) {
    let name = format!("wired{}", std::process::id());
    let text = format!(
        "name: {name}\nnodes: {{a: {{}}, b: {{}}}}\nswitches: {{s: {{}}}}\n\
         links: [{{ends: [a, s], delay: 1ms}}, [b, s]]\n"
    );
    (name, text)
}

/// The one process that the list shows so, when those that it has started show what they are.
fn shown_as(title: &str) -> i32 {
    wait_until(&format!("one process is {title}"), SOON, || match with_command_line(title)[..] {
        [one] => Some(one),
        _ => None,
    })
}

#[test]
fn the_core_may_die_with_the_lab_process_where_links_have_wires() {
    let machine = machine!();
    let (name, text) = wired();
    machine.up(&text);
    let core = shown_as(&format!("netloom-init: core of {name}"));
    kill_and_wait(lab_process(&machine, &name));
    kill_and_wait(core);
    machine.up(&text);
    machine.all_reach_all();
    let wire = machine.link("a:eth0");
    assert_eq!(wire["wire"]["state"], "running", "{wire}");
    machine.down();
}

#[test]
fn the_spawner_may_die() {
    let machine = machine!();
    let (name, text) = wired();
    machine.up(&text);
    let title = format!("netloom-spawn: {name}");
    for node in ["c", "d"] {
        kill_and_wait(shown_as(&title));
        machine.ok(&format!("node create {node}"));
        machine.exec(node, &["true"]).finish().code(0);
    }
    kill_and_wait(shown_as(&title));
    kill_and_wait(machine.init("a"));
    machine.up(&text);
    machine.answers("a", "b");
    machine.netloom(["ping", "a", "b"]).finish().code(0);
    // Nodes of one spawner and of another are one lab: names are known in all of it.
    for node in ["a", "b", "c"] {
        machine.exec(node, &["getent", "hosts", "a"]).finish().code(0);
    }
    kill_and_wait(shown_as(&title));
    machine.down();
}
