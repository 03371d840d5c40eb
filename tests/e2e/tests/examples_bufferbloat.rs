//! The example of bufferbloat: its script sees packets wait long in the long queue, and not in the
//! short one. Only which is larger is asserted, no speed.

use std::time::Duration;

use netloom_tests_e2e::{Run, machine, needs, workspace_root};

/// The numbers of a line of the script's table, without the queue's name.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_short_queue_cures_the_wait() {
    needs!("iperf3", "python3");
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/bufferbloat.yaml"));
    let plot = machine.scratch().path().join("plot.svg");
    let script = workspace_root().join("examples/bufferbloat.py");
    let binary = netloom_kit::Binary::find();
    let done = Run::new("python3")
        .args([script.as_os_str(), plot.as_os_str(), "4".as_ref()])
        .env("NETLOOM", binary.path())
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
        .bound(Duration::from_secs(240))
        .finish()
        .code(0);
    let text = done.text();
    let rows: Vec<Vec<f64>> = text.lines().skip(1).map(numbers).collect();
    let [long, short] = &rows[..] else { panic!("two queues: {text}") };
    // Carried, the pings' median and worst, the packets' median and worst, lost.
    let [_, _, long_ping, long_wait, long_worst, _] = long[..] else { panic!("{text}") };
    let [_, _, short_ping, short_wait, _, _] = short[..] else { panic!("{text}") };
    // The worst of the short one may be the machine's.
    assert!(long_worst > 4.0 * short_wait, "{text}");
    assert!(long_wait > 2.0 * short_wait && long_ping > 2.0 * short_ping, "{text}");
    let picture = std::fs::read_to_string(&plot).expect("a plot");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    assert_eq!(picture.matches("<polyline ").count(), 2, "{picture}");
    machine.down();
}
