//! `logs`: what the programs of a node wrote, now and as it comes.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use netloom_tests_e2e::{machine, pair, wait_until};

const BOUND: Duration = Duration::from_secs(20);

#[test]
fn both_streams_of_a_program_are_kept() {
    let machine = machine!();
    let script = "echo to-out; echo to-err >&2; exec tail -f /dev/null";
    machine.up(&pair(&format!("run: [[sh, -c, '{script}']]")));
    wait_until("both lines are logged", BOUND, || {
        let text = machine.netloom(["logs", "a"]).ok();
        (text.contains("to-out") && text.contains("to-err")).then_some(())
    });
    assert_eq!(machine.netloom(["logs", "b"]).ok(), "");
    machine.netloom(["logs", "c"]).finish().says("c");
    machine.down();
}

#[test]
fn following_shows_lines_as_they_come() {
    let machine = machine!();
    let script = "echo first; until test -e /tmp/go; do sleep 0.02; done; echo second; \
                  exec tail -f /dev/null";
    machine.up(&pair(&format!("run: [[sh, -c, '{script}']]")));
    let mut follow = machine.netloom(["logs", "a", "-f"]).spawn();
    let mut lines = BufReader::new(follow.stdout.take().expect("stdout is piped")).lines();
    let mut next = || lines.next().expect("a line").expect("readable");
    assert!(next().contains("first"));
    machine.exec("a", &["touch", "/tmp/go"]).ok();
    assert!(next().contains("second"));
    follow.kill().expect("end following");
    follow.wait().expect("reap");
    machine.down();
}

#[test]
fn a_program_that_fails_is_started_again_when_asked() {
    let machine = machine!();
    let script = "echo started; test -e /tmp/twice || { touch /tmp/twice; exit 1; }; \
                  exec tail -f /dev/null";
    let run = format!("run: [{{command: [sh, -c, '{script}'], restart: on-failure}}]");
    machine.up(&pair(&run));
    wait_until("it was started twice", BOUND, || {
        let text = machine.netloom(["logs", "a"]).ok();
        (text.matches("started").count() == 2).then_some(())
    });
    machine.down();
}
