//! `logs`: what the programs of a node wrote, now and as it comes.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use netloom_tests_e2e::{machine, pair, wait_until};

const BOUND: Duration = Duration::from_secs(60);

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

const TWO: &str = "
name: two
nodes:
  a:
    run:
      - [sh, -c, 'echo one; echo two; exec tail -f /dev/null']
      - [sh, -c, 'echo three; until test -e /tmp/go; do sleep 0.02; done; echo four; exec tail -f /dev/null']
  web: {run: [[sh, -c, 'echo five; exec tail -f /dev/null']]}
  quiet: {}
links: [[a, web]]
";

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn several_programs_and_nodes_are_told_apart() {
    let machine = machine!();
    machine.up(TWO);
    let logs = |words: &str| machine.netloom(words.split(' ')).ok();
    let all = ["a   sh | one", "a   sh | two", "a   sh#2 | three", "web | five"];
    wait_until("all lines are logged", BOUND, || (logs("logs").lines().count() == 4).then_some(()));
    assert_eq!(sorted(&logs("logs")), all);
    assert_eq!(sorted(&logs("logs a web")), all);
    assert_eq!(logs("logs web quiet"), "web   | five\n");
    assert_eq!(sorted(&logs("logs a")), ["sh | one", "sh | two", "sh#2 | three"]);
    // One program of one node needs no name.
    assert_eq!(logs("logs web"), "five\n");
    assert_eq!(logs("logs -n 1 a web").lines().count(), 2);
    assert_eq!(logs("logs -n 0"), "");
    machine.netloom(["logs", "a", "c"]).finish().code(1).says("c");
    machine.down();
}

#[test]
fn following_goes_on_for_all_nodes_until_the_lab_is_down() {
    let machine = machine!();
    machine.up(TWO);
    let mut follow = machine.netloom(["logs", "-f"]).spawn();
    let mut lines = BufReader::new(follow.stdout.take().expect("stdout is piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("readable"));
    let mut first: Vec<String> = (0..4).filter_map(|_| next()).collect();
    first.sort();
    assert_eq!(first, ["a   sh | one", "a   sh | two", "a   sh#2 | three", "web | five"]);
    machine.exec("a", &["touch", "/tmp/go"]).ok();
    assert_eq!(next().as_deref(), Some("a   sh#2 | four"));
    machine.netloom(["down"]).finish().code(0);
    // What programs say about their end may come before it.
    while next().is_some() {}
    assert!(follow.wait().expect("it ends by itself").success());
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
        // Not those that the note of its end quotes.
        (text.lines().filter(|line| *line == "started").count() == 2).then_some(())
    });
    machine.down();
}
