//! Lab processes and spawners that are stopped: nobody waits for them without bound, and the lab heals.

use std::time::Duration;

use netloom_kit::stop;
use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, machine, pair, signal, wait_until, with_command_line};
use rustix::process::Signal;

/// What is waited for without bound takes longer on any machine.
const BOUND: Duration = Duration::from_secs(90);

/// A lab whose name no other has, and its spawner.
fn lab(machine: &Machine) -> (String, i32) {
    let name = format!("hung{}", std::process::id());
    let text = pair("run: [[tail, -f, /dev/null]]").replace("name: pair", &format!("name: {name}"));
    machine.up(&text);
    // Processes that it starts look like it until they show what they are.
    let spawner = wait_until("one spawner", SOON, || {
        match with_command_line(&format!("netloom-spawn: {name}"))[..] {
            [one] => Some(one),
            _ => None,
        }
    });
    (text, spawner)
}

#[test]
fn a_stopped_lab_process_is_told_and_goes_on() {
    let machine = machine!();
    lab(&machine);
    let process = machine.lab_process();
    stop(process);
    let parts = ["waiting for the lab process", "does not answer", "has not answered"];
    machine.refused("status", 1, &parts);
    // Who enters a node asks by another socket.
    machine.refused("exec a -- true", 1, &parts);
    signal(process, Signal::CONT);
    machine.ok("status");
    machine.ok("exec a -- true");
    machine.down();
}

#[test]
fn a_stopped_init_is_not_waited_for() {
    let machine = machine!();
    lab(&machine);
    let inits = machine.inits();
    let of_a = inits.iter().find(|(node, _)| node == "a").map(|(_, init)| *init).expect("a");
    stop(of_a);
    // Of its programs nothing is known; all else is.
    let programs = || {
        let status = machine.netloom(["status", "--json"]).bound(BOUND).finish();
        let status = status.code(0).json();
        status["nodes"][0]["programs"].as_array().map(Vec::len)
    };
    assert_eq!(programs(), Some(0));
    signal(of_a, Signal::CONT);
    wait_until("its programs are known", SOON, || (programs() == Some(1)).then_some(()));
    machine.down();
}

/// The links of a lab with two wires, whose name no other has.
fn wired() -> (String, [&'static str; 2]) {
    let name = format!("hungwire{}", std::process::id());
    let links = "links: [{ends: [a, b], delay: 1ms}, {ends: [b, c], delay: 1ms}]";
    let text = format!("name: {name}\npool: {{ipv6: none}}\nnodes: {{a: , b: , c: }}\n{links}\n");
    (text, ["a:eth0--b:eth0", "b:eth1--c:eth0"])
}

/// The process that carries the wires of this lab.
fn wire_process(machine: &Machine) -> i32 {
    let folder = machine.scratch().runtime_dir();
    let ours = with_command_line(folder.to_str().expect("a path in UTF-8"));
    let wires = with_command_line("wire-process");
    wires.into_iter().find(|pid| ours.contains(pid)).expect("a process of wires")
}

#[test]
fn a_stopped_wire_process_is_told_and_goes_on() {
    let machine = machine!();
    let (text, [first, second]) = wired();
    machine.up(&text);
    let process = wire_process(&machine);
    stop(process);
    let bound = |words: &str| machine.netloom(words.split(' ')).bound(BOUND).finish();
    let advice = format!("`kill -CONT {process}` continues it if it is stopped");
    let state = |link: &str| {
        let shown = bound(&format!("link show {link} --json")).code(0).json();
        shown["wire"]["state"].as_str().expect("a state").to_owned()
    };
    let told = state(first);
    assert!(told.starts_with("not known: ") && told.contains(&advice), "{told}");
    bound("status").code(0);
    for link in [first, second] {
        let name = format!("link {link:?}");
        bound(&format!("link set {link} --loss 100%")).code(1).says(&name).says(&advice);
    }
    // One that is to get another wire, as a whole file is applied.
    let file = machine.file(&text.replacen("delay: 1ms", "loss: 1%", 1));
    bound(&format!("apply --yes {}", file.display())).code(1).says(&advice);
    signal(process, Signal::CONT);
    wait_until("it is heard again", SOON, || (state(first) == "running").then_some(()));
    // What was refused for want of an answer is not done afterwards.
    machine.answers("a", "b");
    machine.answers("b", "c");
    for link in [first, second] {
        machine.ok(&format!("link set {link} --delay 3ms --loss none"));
        machine.ok(&format!("link set {link} --clear"));
        machine.ok(&format!("link set {link} --delay 1ms"));
    }
    machine.answers("a", "b");
    machine.answers("b", "c");
    assert_eq!(wire_process(&machine), process);
    stop(process);
    bound("down").code(0);
    machine.untouched();
}

#[test]
fn a_hung_wire_process_that_is_killed_is_replaced() {
    let machine = machine!();
    let (text, [first, _]) = wired();
    machine.up(&text);
    let process = wire_process(&machine);
    stop(process);
    let set = machine.netloom(["link", "set", first, "--delay", "2ms"]).bound(BOUND).finish();
    set.code(1).says(&format!("`kill -KILL {process}` ends it if it hangs"));
    kill_and_wait(process);
    wait_until("another runs", SOON, || {
        (machine.link(first)["wire"]["state"] == "running").then_some(())
    });
    machine.answers("a", "b");
    machine.down();
}

#[test]
fn down_takes_a_lab_from_a_stopped_process() {
    let machine = machine!();
    lab(&machine);
    stop(machine.lab_process());
    machine.ok("down").says("does not answer").says("is killed");
    machine.untouched();
}

#[test]
fn down_waits_for_no_change_that_does_not_end() {
    let machine = machine!();
    let (text, _) = lab(&machine);
    let time = format!("{}.5", std::process::id());
    let more =
        text.replace("  b: {}\n", &format!("  b: {{}}\n  c: {{setup: [[sleep, '9{time}']]}}\n"));
    let file = machine.scratch().file("more.yaml", &more);
    let words = ["apply", "--yes", file.to_str().expect("a path in UTF-8")];
    let mut applying = Held::start(machine.netloom(words));
    applying.until("the change is at it", || {
        with_command_line(&format!("sleep 9{time}")).first().copied()
    });
    machine.netloom(["down"]).bound(BOUND).finish().code(0).says("is killed");
    drop(applying);
    machine.untouched();
}

#[test]
fn up_takes_over_from_a_stopped_process() {
    let machine = machine!();
    let (text, _) = lab(&machine);
    let inits = machine.inits();
    stop(machine.lab_process());
    machine.up(&text).says("does not answer").says("is killed");
    assert_eq!(machine.inits(), inits);
    machine.all_reach_all();
    machine.down();
}

#[test]
fn a_stopped_spawner_that_lost_its_lab_process_is_no_hindrance() {
    let machine = machine!();
    let (text, spawner) = lab(&machine);
    let inits = machine.inits();
    stop(spawner);
    kill_and_wait(machine.lab_process());
    let waits = format!("waiting for the lab's spawner (pid {spawner})");
    machine.up(&text).says(&waits).says("is killed");
    assert_eq!(machine.inits(), inits);
    let title = format!("netloom-spawn: hung{}", std::process::id());
    stop(with_command_line(&title)[0]);
    stop(machine.lab_process());
    machine.ok("down").says("is killed");
    wait_until("no spawner", SOON, || with_command_line(&title).is_empty().then_some(()));
    machine.untouched();
}
