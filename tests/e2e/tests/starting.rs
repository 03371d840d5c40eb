//! Starting a lab: `setup`, programs that end, the state shown meanwhile, and leftovers of a failure.

use std::time::Duration;

use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, machine, needs, pair, wait_until};

const BOUND: Duration = Duration::from_secs(60);

/// A node `a` with these keys, and a node `b`.
fn lab(keys: &str) -> String {
    let lines: String = keys.lines().map(|line| format!("    {}\n", line.trim())).collect();
    format!("name: pair\nnodes:\n  a:\n{lines}  b: {{}}\nlinks: [[a, b]]\n")
}

fn up(machine: &Machine, text: &str, more: &[&str]) -> netloom_tests_e2e::Run {
    let file = machine.file(text);
    let file = file.to_str().expect("a plain path").to_owned();
    machine.netloom(["up", &file].iter().chain(more))
}

/// What `status --json` says of node `a`: its state and the reason.
fn node_a(machine: &Machine) -> (String, String) {
    let status = machine.status();
    let text = |key: &str| status["nodes"][0][key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("reason"))
}

fn lab_state(machine: &Machine) -> String {
    machine.status()["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn setup_is_done_in_order_before_programs_run() {
    let machine = machine!();
    machine.up(&lab("setup:\n- [sh, -c, echo one >> /tmp/order]\n- [sh, -c, echo two >> /tmp/order]\n\
                     - [sh, -c, echo said]\nrun: [[sh, -c, cp /tmp/order /tmp/seen; exec sleep infinity]]\n\
                     ready: {file: /tmp/seen}"));
    assert_eq!(machine.exec("a", &["cat", "/tmp/seen"]).ok(), "one\ntwo\n");
    let logged = machine.netloom(["logs", "a"]).ok();
    assert!(logged.contains("setup 3 | said\n"), "{logged}");
    machine.down();
}

#[test]
fn a_setup_command_that_fails_ends_up_with_its_last_lines() {
    let machine = machine!();
    let text =
        lab("setup:\n- [\"true\"]\n- [sh, -c, echo no such thing >&2; exit 3]\n- [\"true\"]\n\
                    run: [[sleep, infinity]]");
    let failed = up(&machine, &text, &[]).finish().code(1);
    failed
        .says("node \"a\": setup 2 (sh -c echo no such thing >&2; exit 3) exited 3")
        .says("no such thing")
        .says("--keep");
    machine.netloom(["ls"]).finish().code(0);
    let missing = up(&machine, &lab("setup: [[no-such-program-anywhere]]"), &[]).finish().code(1);
    missing.says("setup 1 (no-such-program-anywhere)");
    machine.untouched();
}

#[test]
fn a_setup_command_that_does_not_end_is_named_in_time() {
    let machine = machine!();
    let text = lab("setup: [[sleep, infinity]]\nready: {timeout: 3s}");
    up(&machine, &text, &[]).finish().code(1).says("in time: setup 1 (sleep infinity) runs");
    machine.untouched();
}

#[test]
fn a_program_that_ends_with_an_error_without_ready_is_told_and_the_lab_stands() {
    for (script, ending) in [("exit 3", "exited 3"), ("kill -9 $$", "ended by signal 9")] {
        let machine = machine!();
        let run = format!("run: [[sh, -c, 'echo the last words >&2; {script}']]");
        let said = up(&machine, &lab(&run), &[]).finish().code(1);
        said.says("lab \"pair\" is up, but 1 program ended with an error")
            .says(&format!(
                "node \"a\": program 1 (sh -c echo the last words >&2; {script}) {ending}"
            ))
            .says("the last words");
        assert_eq!(lab_state(&machine), "degraded");
        let (state, reason) = node_a(&machine);
        assert!(state == "degraded" && reason.ends_with(ending), "{state}: {reason}");
        let shown = machine.netloom(["status"]).ok();
        assert!(shown.contains(&format!("sh {ending}")), "{shown}");
        let listed = machine.netloom(["ls"]).ok();
        assert!(listed.contains("degraded"), "{listed}");
        machine.exec("a", &["true"]).ok();
        // So do those who bring it up again, and who take it over.
        let told = |how: &str| {
            let again = up(&machine, &lab(&run), &[]).finish().code(1).says("is up, but degraded");
            assert!(again.text().contains(how), "{}", again.text());
            again.says("a degraded: program 1").says(ending);
        };
        told("already running");
        kill_and_wait(machine.lab_process());
        told("adopted");
        machine.down();
    }
}

#[test]
fn a_firewall_with_a_mistake_in_its_rules_is_told() {
    needs!("nft");
    let machine = machine!();
    let text = lab("files: {/etc/rules.nft: \"table inet x { chian y { } }\\n\"}\n\
                    run: [[nft, -f, /etc/rules.nft]]");
    let said = up(&machine, &text, &[]).finish().code(1);
    said.says("node \"a\": program 1 (nft -f /etc/rules.nft) exited 1").says("chian");
    machine.down();
}

#[test]
fn a_program_that_dies_after_all_was_ready_is_told() {
    let machine = machine!();
    // The last of what `ready` asks for lets it die.
    let text = lab("run: [[sh, -c, 'until test -e /tmp/seen; do :; done; exit 4']]\n\
                    ready: {exec: [touch, /tmp/seen]}");
    up(&machine, &text, &[]).finish().code(1).says("exited 4");
    machine.down();
}

#[test]
fn a_program_that_ends_well_is_done() {
    let machine = machine!();
    machine.up(&lab("run: [[\"true\"], [sleep, infinity]]"));
    assert_eq!((lab_state(&machine), node_a(&machine).0), ("up".into(), "up".into()));
    wait_until("one is done", BOUND, || {
        let shown = machine.netloom(["status"]).ok();
        shown.contains("1 of 2 run, 1 done").then_some(())
    });
    machine.down();
}

#[test]
fn a_program_that_dies_later_shows_in_the_status() {
    let machine = machine!();
    machine.up(&lab("run: [[sh, -c, 'until test -e /tmp/go; do sleep 0.02; done; exit 5']]"));
    assert_eq!(lab_state(&machine), "up");
    machine.exec("a", &["touch", "/tmp/go"]).ok();
    wait_until("the node is degraded", BOUND, || (lab_state(&machine) == "degraded").then_some(()));
    assert!(node_a(&machine).1.ends_with("exited 5"));
    machine.down();
}

#[test]
fn a_lab_that_starts_can_be_looked_into() {
    let machine = machine!();
    let text = lab("setup: [[sh, -c, 'until test -e /tmp/set; do sleep 0.02; done']]\n\
                    run: [[sh, -c, 'echo began; exec sleep infinity']]\n\
                    ready: {file: /tmp/go, timeout: 300s}");
    let child = up(&machine, &text, &[]).spawn();
    let waits = |for_what: &str| {
        wait_until("the node waits", BOUND, || {
            let shown = machine.netloom(["status"]).finish();
            let text = String::from_utf8_lossy(&shown.stdout).into_owned();
            (text.contains("lab pair: starting") && text.contains(for_what)).then_some(())
        });
    };
    waits("a waits: setup 1 (sh -c until test -e /tmp/set; do sleep 0.02; done) runs");
    assert!(machine.netloom(["ls"]).ok().contains("starting"));
    machine.exec("a", &["touch", "/tmp/set"]).ok();
    waits("a waits: file /tmp/go does not exist");
    wait_until("the log has it", BOUND, || {
        machine.netloom(["logs", "a"]).ok().contains("began").then_some(())
    });
    machine.exec("a", &["touch", "/tmp/go"]).ok();
    let done = child.wait_with_output().expect("wait for up");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(lab_state(&machine), "up");
    machine.down();
}

#[test]
fn a_lab_that_starts_can_be_taken_down() {
    let machine = machine!();
    let child = up(&machine, &lab("ready: {file: /tmp/never, timeout: 300s}"), &[]).spawn();
    wait_until("it starts", BOUND, || {
        let shown = machine.netloom(["status"]).finish();
        String::from_utf8_lossy(&shown.stdout).contains("/tmp/never").then_some(())
    });
    machine.netloom(["down", "pair"]).ok();
    let done = child.wait_with_output().expect("wait for up");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("was taken down while it came up"), "{said}");
    machine.untouched();
}

/// Never ready: the third program fails when the first, which is started again and again, and the second,
/// which runs, have said something.
const NEVER: &str = "run:\n\
    - {command: [sh, -c, 'echo trying hard; touch /tmp/one; exit 1'], restart: always}\n\
    - [sh, -c, 'echo waiting; touch /tmp/two; exec sleep infinity']\n\
    - [sh, -c, 'until test -e /tmp/one -a -e /tmp/two; do sleep 0.02; done; exit 7']\n\
    ready: {tcp: 9, timeout: 300s}";

#[test]
fn a_lab_that_fails_tells_the_last_lines_of_every_program() {
    let machine = machine!();
    let said = up(&machine, &lab(NEVER), &[]).finish().code(1);
    said.says("node \"a\": not ready: no program listens on TCP port 9")
        .says("program 1 (sh -c echo trying hard; touch /tmp/one; exit 1) ")
        .says("    trying hard")
        .says("program 2 (sh -c echo waiting; touch /tmp/two; exec sleep infinity) runs")
        .says("    waiting")
        .says("sleep 0.02; done; exit 7) exited 7, and wrote nothing");
    machine.untouched();
}

#[test]
fn a_lab_that_fails_is_kept_on_wish() {
    let machine = machine!();
    up(&machine, &lab(NEVER), &["--keep"])
        .finish()
        .code(1)
        .says("trying hard")
        .says("netloom down pair");
    assert_eq!(lab_state(&machine), "failed");
    let (state, reason) = node_a(&machine);
    assert!(state == "failed" && reason.contains("port 9"), "{state}: {reason}");
    assert!(machine.netloom(["ls"]).ok().contains("failed"));
    assert!(machine.netloom(["logs", "a"]).ok().contains("waiting"));
    assert_eq!(machine.exec("a", &["hostname"]).ok(), "a\n");
    up(&machine, &lab(NEVER), &[]).finish().code(1).says("could not come up and was kept");
    machine.netloom(["down", "pair"]).ok();
    // With its process killed nothing adopts it.
    up(&machine, &lab(NEVER), &["--keep"]).finish().code(1);
    let pid = machine.status()["pid"].as_i64().and_then(|p| i32::try_from(p).ok()).expect("a pid");
    netloom_tests_e2e::kill(pid);
    wait_until("nobody has it", BOUND, || {
        machine.netloom(["ls"]).ok().contains("broken").then_some(())
    });
    machine.up(&pair(""));
    machine.down();
}
