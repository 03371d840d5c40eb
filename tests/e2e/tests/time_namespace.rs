//! A lab and its measurements in a time namespace, whose monotonic clock is not that of BPF programs.

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, Run, descendants, machine, needs, root_only, signal};
use serde_json::Value;

/// What the clock there is ahead of the machine's, in seconds: more than any block or timer waits for.
const AHEAD: &str = "5000";

const LAB: &str = "
name: elsewhen
nodes: {a: {}, b: {}}
links:
  - {ends: [a, b], delay: 10ms}
";

fn there() -> Run {
    Run::new("unshare").args(["--fork", "--time", "--monotonic", AHEAD])
}

fn netloom_there(machine: &Machine, args: &[&str]) -> Run {
    there()
        .args([netloom_kit::Binary::find().path()])
        .args(args)
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
}

#[test]
fn a_lab_in_another_time_delays_and_is_measured() {
    root_only!("loads BPF programs");
    let machine = machine!();
    needs!("time-namespaces");
    let file = machine.file(LAB);
    netloom_there(&machine, &["up", file.to_str().expect("a path")]).finish().code(0);
    machine.answers("a", "b");
    let words = ["measure", "a", "b", "-4", "--json", "--proto", "icmp"];
    let mut measure = Held::start(netloom_there(&machine, &words));
    measure.line();
    machine.exec("a", &["ping", "-4", "-c", "5", "-i", "0.01", "-W", "30", "b"]).ok();
    // What runs there is the child of `unshare`.
    let inner = *descendants(measure.pid()).last().expect("it runs");
    signal(inner, rustix::process::Signal::INT);
    let text = measure.rest();
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    let totals: Vec<Value> = lines.filter(|line: &Value| line["type"] == "total").collect();
    assert_eq!(totals.len(), 2, "{text}");
    for total in totals {
        assert_eq!(
            (&total["complete"], &total["way"]["sent"]),
            (&true.into(), &5.into()),
            "{total}"
        );
        let delay = total["way"]["sampled"]["p50_ns"]["value"].as_f64();
        assert!(delay.is_some_and(|delay| delay >= 10e6), "{total}");
    }
    machine.down();
}
