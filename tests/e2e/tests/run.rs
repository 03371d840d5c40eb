//! `run`: a lab in the foreground; Ctrl-C ends it and leaves nothing.

use std::io::{BufRead, BufReader};

use std::time::Duration;

use netloom_tests_e2e::{machine, pair, signal, wait_until};
use rustix::process::Signal;

#[test]
fn it_shows_the_nodes_output_and_ends_by_interrupt() {
    for stop in [Signal::INT, Signal::TERM] {
        let machine = machine!();
        let script = "echo spoken-words; exec tail -f /dev/null";
        let file = machine.file(&pair(&format!("run: [[sh, -c, '{script}']]")));
        let mut child = machine.netloom(["run".as_ref(), file.as_os_str()]).spawn();
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let said = lines.map(|line| line.expect("readable")).find(|l| l.contains("spoken-words"));
        let said = said.expect("the program's line is shown before the end");
        assert!(said.trim_start().starts_with('a'), "not prefixed by the node's name: {said}");
        signal(child.id().cast_signed(), stop);
        let status = child.wait().expect("wait");
        assert!(matches!(status.code(), Some(0 | 130 | 143)), "{status}");
        machine.untouched();
    }
}

#[test]
fn a_killed_run_is_taken_down_like_any_lab() {
    let machine = machine!();
    let file = machine.file(&pair("run: [[sh, -c, 'echo up; exec tail -f /dev/null']]"));
    let mut child = machine.netloom(["run".as_ref(), file.as_os_str()]).spawn();
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("up")));
    child.kill().expect("kill");
    child.wait().expect("reap");
    machine.down();
}

#[test]
fn an_interrupted_up_leaves_nothing() {
    let machine = machine!();
    // It never becomes ready, so that the interrupt always comes while it is being made.
    let file = machine.file(&pair("ready: {exec: [\"false\"], timeout: 50s}"));
    let mut child = machine.netloom(["up".as_ref(), file.as_os_str()]).spawn();
    let socket = machine.scratch().runtime_dir().join("pair/n/1.sock");
    wait_until("the nodes' inits are there", Duration::from_secs(60), || {
        socket.exists().then_some(())
    });
    signal(child.id().cast_signed(), Signal::INT);
    let status = child.wait().expect("wait");
    assert_eq!(status.code(), Some(1));
    machine.untouched();
}
