//! Lab processes and spawners that are stopped: nobody waits for them without bound, and the lab heals.

use netloom_kit::stop;
use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, machine, pair, signal, with_command_line};
use rustix::process::Signal;

/// A lab whose name no other has, and its spawner.
fn lab(machine: &Machine) -> (String, i32) {
    let name = format!("hung{}", std::process::id());
    let text = pair("run: [[tail, -f, /dev/null]]").replace("name: pair", &format!("name: {name}"));
    machine.up(&text);
    let found = with_command_line(&format!("netloom-spawn: {name}"));
    assert_eq!(found.len(), 1, "{found:?}");
    (text, found[0])
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
fn down_takes_a_lab_from_a_stopped_process() {
    let machine = machine!();
    lab(&machine);
    stop(machine.lab_process());
    machine.ok("down").says("does not answer").says("is killed");
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
    machine.netloom(["ping", "--all"]).finish().code(0);
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
    assert_eq!(with_command_line(&title), Vec::<i32>::new());
    machine.untouched();
}
