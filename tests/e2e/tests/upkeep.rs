//! Work once a lab is ready: commands of `exec`, and checks that repeat.

use std::time::Duration;

use netloom_tests_e2e::{Machine, Run, machine, wait_until};

const BOUND: Duration = Duration::from_secs(60);

fn health(machine: &Machine, of: usize) -> (String, String) {
    let status = machine.status();
    let node = &status["nodes"][of];
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("none").to_owned();
    (word(&node["health"]["state"]), word(&node["state"]))
}

/// Asserts that a run succeeds and prints `part`.
fn prints(run: Run, part: &str) {
    let text = run.ok();
    assert!(text.contains(part), "{part:?} is not in\n{text}");
}

#[test]
fn commands_follow_in_order_when_every_node_is_ready() {
    let machine = machine!();
    machine.up(
        "name: t\nnodes:\n  a:\n    exec:\n      - [sh, -c, \"echo first; test -e /proc/1 && until ping -c 1 -W 5 b > /tmp/b; do :; done\"]\n      \
         - {command: [sh, -c, \"pwd; cat b | grep -c 'bytes from'\"], workdir: /tmp}\n  \
         b: {run: [[sh, -c, \"sleep 0.3; touch /tmp/late; sleep infinity\"]], ready: {file: /tmp/late}}\n\
         links: [[a, b]]\n",
    );
    let log = machine.netloom(["logs", "a"]).ok();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], "exec 1 | first", "{log}");
    assert!(lines.contains(&"exec 2 | /tmp") && lines.contains(&"exec 2 | 1"), "{log}");
    machine.down();
}

#[test]
fn a_failure_ends_the_lab_unless_it_may_fail() {
    let machine = machine!();
    let file = machine.file(
        "name: t\nnodes:\n  a: {exec: [[sh, -c, \"echo why >&2; exit 3\"], [touch, /never]]}\n",
    );
    let failed = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    failed.says("node \"a\"").says("exec 1 (sh -c echo why >&2; exit 3) exited 3").says("    why");
    prints(machine.netloom(["ls"]), "no lab is running");
    let up = machine.up(
        "name: t\nnodes:\n  a:\n    exec:\n      - {command: [sh, -c, \"echo no good; exit 4\"], fatal: false}\n      \
         - {command: [/nothing/there], fatal: false}\n      \
         - {command: [sleep, \"600\"], fatal: false, timeout: 200ms}\n      - [touch, /tmp/last]\n",
    );
    up.says("3 commands of `exec` failed")
        .says("node \"a\": exec 1 (sh -c echo no good; exit 4) exited 4\n    no good")
        .says("exec 2 (/nothing/there): start:")
        .says("exec 3 (sleep 600) took longer than 200 ms; a server, which does not end, goes to `run`");
    machine.exec("a", &["test", "-e", "/tmp/last"]).finish().code(0);
    assert_eq!(machine.status()["state"], "up");
    machine.down();
}

#[test]
fn a_check_that_repeats_tells_when_a_node_is_unhealthy_and_when_no_more() {
    let machine = machine!();
    machine.up(
        "name: t\nnodes:\n  a:\n    files: {/srv/good: \"\"}\n    \
         health: {exec: [test, -e, /srv/good], interval: 100ms, retries: 3}\n  b: {}\nlinks: [[a, b]]\n",
    );
    let is = |word: &'static str, state: &'static str| {
        wait_until(word, BOUND, || {
            let (health, of_node) = health(&machine, 0);
            (health == word && of_node == state).then_some(())
        });
    };
    is("healthy", "up");
    assert_eq!(health(&machine, 1), ("none".into(), "up".into()));
    machine.exec("a", &["rm", "/srv/good"]).finish().code(0);
    is("unhealthy", "degraded");
    prints(machine.netloom(["status"]), "a degraded: unhealthy: test -e /srv/good exited 1");
    prints(machine.netloom(["node", "show", "a"]), "in a row: test -e /srv/good");
    machine.exec("a", &["touch", "/srv/good"]).finish().code(0);
    is("healthy", "up");
    machine.down();
}

#[test]
fn a_program_that_ends_again_and_again_waits_longer_each_time() {
    let machine = machine!();
    machine.up("name: t\nnodes: {a: {run: [{command: [sleep, \"0.05\"], restart: always}]}}\n");
    let pause = wait_until("a pause", BOUND, || {
        let status = machine.status();
        let program = &status["nodes"][0]["programs"][0];
        let restarts = program["restarts"].as_u64()?;
        let pause = program["restart_in_ms"].as_u64()?;
        (restarts >= 4 && pause > 200).then_some(pause)
    });
    assert!(pause <= 10_000, "{pause}");
    // In a pause that has not passed meanwhile.
    wait_until("the same in words", BOUND, || {
        machine.netloom(["status"]).ok().contains("starts again in").then_some(())
    });
    machine.down();
}
