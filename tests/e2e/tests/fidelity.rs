//! A lab that cannot keep up says so: the wires' process is stopped for a known time, and frames that it holds are late by it.

use std::time::{Duration, Instant};

use netloom_kit::stop;
use netloom_tests_e2e::live::{Held, SOON, gone, kill_and_wait};
use netloom_tests_e2e::{
    Machine, descendants, machine, root_only, signal, wait_until, with_command_line,
};
use rustix::process::Signal;
use serde_json::Value;

/// How long the wire holds each frame.
const DELAY: Duration = Duration::from_secs(1);

/// How late every frame is at least that is held when the wire is stopped.
const LATE: Duration = Duration::from_millis(500);

const LINK: &str = "a:eth0--b:eth0";

/// Two nodes, the first of which sends into the wire all the time.
fn lab(more: &str) -> String {
    format!(
        "name: behind\npool: {{ipv6: none}}\nnodes:\n  \
         a: {{run: [[ping, -q, -i, \"0.2\", 10.9.0.2]]}}\n  b: {{}}\n\
         links: [{{ends: [a, b], delay: 1s, addresses: {{a: 10.9.0.1/24, b: 10.9.0.2/24}}}}]\n{more}"
    )
}

/// The processes that carry wires of labs of this machine.
fn wire_process(machine: &Machine) -> Option<i32> {
    let folder = machine.scratch().runtime_dir();
    let ours = with_command_line(folder.to_str().expect("a path"));
    with_command_line("wire-process").into_iter().find(|pid| ours.contains(pid) && !gone(*pid))
}

/// Stops the wires so long that every frame they hold is late by [`LATE`].
fn hold_up(machine: &Machine) {
    let wire = wire_process(machine).expect("a process of wires");
    stop(wire);
    let stopped = Instant::now();
    // The frame that came last is due after the delay.
    wait_until("all are late", SOON, || (stopped.elapsed() >= DELAY + LATE).then_some(()));
    signal(wire, Signal::CONT);
}

/// Holds the wires up until a look tells what it should. A busy machine may have told of less before, and has forgotten what it
/// told when it is looked at too late.
fn told<T>(machine: &Machine, mut look: impl FnMut() -> Option<T>) -> T {
    wait_until("it is told", SOON, || {
        hold_up(machine);
        look()
    })
}

/// Stops what the first node sends, so that nothing more is late of it.
fn falls_silent(machine: &Machine) {
    let programs = descendants(machine.init("a"));
    let mut pings = with_command_line("ping -q");
    pings.retain(|pid| programs.contains(pid));
    assert!(!pings.is_empty(), "nothing sends");
    pings.into_iter().for_each(stop);
}

/// Waits until the wire holds frames that were sent one after the other.
fn holds_frames(machine: &Machine) {
    wait_until("the wire holds frames", SOON, || {
        let held = &machine.link(LINK)["wire"]["directions"][0]["held_packets"];
        (held.as_u64() >= Some(2)).then_some(())
    });
}

#[test]
fn a_ping_without_all_answers_tells_of_dead_nodes_and_of_what_was_late() {
    let machine = machine!();
    let text = lab("").replace("b: {}\n", "b: {}\n  c: {}\n");
    machine.up(&text.replace("links: [", "links: [[b, c], "));
    kill_and_wait(machine.init("c"));
    wait_until("both are told", SOON, || {
        // The node that is dead is waited for until the timeout.
        let ping = machine.netloom(["ping", "--all", "--timeout", "4000"]).spawn();
        hold_up(&machine);
        let done = ping.wait_with_output().expect("wait for it");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{errors}");
        assert!(errors.contains("warning: dead: node \"c\"; `netloom up`"), "{errors}");
        let late = errors.contains("warning: measured while link a:eth0--b:eth1 from a:eth0 was ");
        assert_eq!(errors.contains("the machine did not keep up"), errors.contains("measured"));
        late.then_some(())
    });
    machine.down();
}

/// The output and the errors of a program that ends with code 1.
fn failed(mut held: Held) -> (String, String) {
    let child = held.child();
    drop(child.stdin.take());
    let output = std::io::read_to_string(child.stdout.take().expect("piped")).expect("output");
    let errors = std::io::read_to_string(child.stderr.take().expect("piped")).expect("errors");
    let status = child.wait().expect("wait for it");
    assert_eq!(status.code(), Some(1), "{output}\n{errors}");
    (output, errors)
}

fn now_ns() -> u128 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    now.expect("a time after 1970").as_nanos()
}

/// What is behind of the link from its first end, by frames.
fn late(behind: &Value) -> Option<&Value> {
    let all = behind.as_array()?;
    all.iter().find(|b| b["name"] == LINK && b["from"] == "a:eth0" && b["cause"] == "late")
}

/// A number that is exact in JSON.
fn exact(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

/// What is behind of the link from its first end, by as much as it was held up.
fn held_up(behind: &Value) -> Option<&Value> {
    let least = u64::try_from(LATE.as_nanos()).expect("a short time");
    late(behind).filter(|found| exact(&found["late_ns"]) >= least)
}

#[test]
fn a_wire_that_was_stopped_is_behind_and_then_is_not_any_more() {
    let machine = machine!();
    let begun = now_ns();
    machine.up(&lab(""));
    holds_frames(&machine);
    let mut events = Held::start(machine.netloom(["events", "--json"]));
    let mut event: Value = serde_json::from_str(&events.line()).expect("a snapshot");
    assert_eq!(event["kind"], "snapshot");
    let found = told(&machine, || held_up(&machine.status()["behind"]).cloned());
    let since = u128::from(exact(&found["since_ns"]));
    assert!(since > begun && since <= now_ns(), "{found}");
    let line = format!("\nbehind: link {LINK} from a:eth0 was ");
    told(&machine, || machine.ok("status").text().contains(&line).then_some(()));
    // Events tell what begins to be behind, with its figure then: of a busy machine maybe before it was held up.
    let mut next = || -> Value { serde_json::from_str(&events.line()).expect("an event") };
    while late(&event["behind"]).is_none() {
        event = next();
    }
    // Ten seconds without a late frame.
    falls_silent(&machine);
    while !event["behind"].is_array() || late(&event["behind"]).is_some() {
        event = next();
    }
    drop(events);
    machine.down();
}

#[test]
fn a_test_is_marked_and_fails_with_the_figure() {
    let machine = machine!();
    let gate = format!("/tmp/enough-{}", std::process::id());
    let text = lab(&format!(
        "expect:\n  - {{fidelity: 1h}}\n  - name: slow\n    within: 10m\n    \
         output: {{node: a, command: [sh, -c, \"until [ -e {gate} ]; do sleep 0.1; done\"]}}\n  \
         - {{fidelity: 400ms}}\n  - {{fidelity: 1h}}\n"
    ));
    let file = machine.scratch().file("late.yaml", &text);
    let test = Held::start(machine.netloom(["test", "--json", file.to_str().unwrap()]));
    let waits = || (!with_command_line(&format!("until [ -e {gate} ]")).is_empty()).then_some(());
    let name = wait_until("it runs", SOON, || {
        let labs = machine.netloom(["ls", "--json"]).finish().code(0).json();
        Some(labs.as_array()?.first()?["name"].as_str()?.to_owned())
    });
    wait_until("its step waits", SOON, waits);
    let shown =
        |words: &[&str]| machine.netloom(["-l", &name].iter().chain(words)).finish().code(0);
    wait_until("the wire holds frames", SOON, || {
        let link = shown(&["link", "show", LINK, "--json"]).json();
        let held = &link["wire"]["directions"][0]["held_packets"];
        (held.as_u64() >= Some(2)).then_some(())
    });
    // What is late has left by then.
    told(&machine, || held_up(&shown(&["status", "--json"]).json()["behind"]).map(|_| ()));
    shown(&["exec", "a", "--", "touch", &gate]);
    let (report, _) = failed(test);
    let report: Value = serde_json::from_str(&report).expect("a report");
    let steps = report[0]["steps"].as_array().expect("steps");
    let holds: Vec<bool> = steps.iter().map(|step| step["holds"] == true).collect();
    assert_eq!(holds, [true, true, true, false, true], "{steps:#?}");
    let seen = |at: usize| steps[at]["seen"].as_str().expect("a text");
    assert!(
        seen(2).contains(&format!("measured while link {LINK} from a:eth0 was ")),
        "{steps:#?}"
    );
    assert_eq!(steps[3]["expected"], "nothing is later than 400ms");
    assert!(seen(3).contains(&format!("link {LINK} from a:eth0 was ")), "{steps:#?}");
    assert!(seen(4).starts_with("nothing was"), "{steps:#?}");
    machine.untouched();
}

#[test]
fn a_measurement_is_marked_and_fails_with_the_figure() {
    root_only!("attaches BPF programs");
    let machine = machine!();
    machine.up(&lab(""));
    holds_frames(&machine);
    let words = ["measure", "a", "b", "--json", "--fidelity", "400ms"];
    let mut measure = Held::start(machine.netloom(words));
    let way: Value = serde_json::from_str(&measure.line()).expect("what is measured");
    assert_eq!(way["type"], "way");
    told(&machine, || held_up(&machine.status()["behind"]).map(|_| ()));
    // A block that closes has the mark.
    let marked = loop {
        let line: Value = serde_json::from_str(&measure.line()).expect("a line");
        if line["type"] == "behind" && held_up(&line["behind"]).is_some() {
            break line;
        }
    };
    assert_eq!(marked["blocks"].as_array().map(Vec::len), Some(2));
    signal(measure.pid(), Signal::INT);
    let (rest, error) = failed(measure);
    let words = "netloom: the lab was later than --fidelity 400ms: ";
    assert!(error.contains(words), "{error}");
    assert!(error.contains(&format!("link {LINK} from a:eth0 was ")), "{error}");
    assert!(rest.contains("\"behind_total\""), "{rest}");
    machine.refused("measure a b --fidelity soon", 2, &["--fidelity"]);
    machine.down();
}
