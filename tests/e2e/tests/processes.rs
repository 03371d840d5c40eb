//! What the process list shows of a lab: each of its processes says what it is.

use netloom_tests_e2e::{is_root, machine};

#[test]
fn process_1_of_a_node_and_the_labs_processes_say_what_they_are() {
    let machine = machine!();
    machine.up(
        "name: told\nnodes:\n  a: {}\n  a-node-with-a-name-that-is-longer-than-any-command-line: \
         {children: {nodes: {b: {}}}}\nlinks: [[a, a-node-with-a-name-that-is-longer-than-any-command-line]]\n",
    );
    let line = |pid: i32| {
        let text = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it lives");
        String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
    };
    for (name, pid) in machine.inits() {
        assert_eq!(line(pid), format!("netloom-init: {name}"));
    }
    assert_eq!(machine.exec("a", &["cat", "/proc/1/cmdline"]).ok(), "netloom-init: a\0");
    let lab = machine.status()["pid"].as_i64().and_then(|p| i32::try_from(p).ok()).expect("a pid");
    assert_eq!(line(lab), "netloom-lab: told");
    let spawner = netloom_tests_e2e::with_command_line("netloom-spawn: told");
    assert!(!spawner.is_empty(), "no spawner");
    if is_root() {
        // Its environment is what it was: the lab is found by it.
        let environment = std::fs::read(format!("/proc/{lab}/environ")).expect("it lives");
        assert!(String::from_utf8_lossy(&environment).contains("NETLOOM_RUNTIME_DIR="));
    }
    machine.down();
}
