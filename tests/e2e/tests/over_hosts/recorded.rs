//! `record` and `packets` with `--on`: each host keeps what it recorded, and answers are put together.

use std::time::Duration;

use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{machine, needs, root_only, wait_until};
use serde_json::Value;

use super::Hosts;

#[test]
fn packets_of_all_hosts_come_by_time_and_a_host_that_is_cut_off_is_named() {
    root_only!("links across need root");
    needs!("ip", "ping");
    let hosts = Hosts::new(machine!());
    hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
    let record = |words: &[&str]| {
        let args = [&["record"], words, &["--on", "hosts.yaml", "-l", "campus"]].concat();
        hosts.machine.netloom(args).bound(Duration::from_secs(120))
    };
    let begun = record(&["start", "--keep", "16MiB"]).finish().code(0).text();
    assert_eq!(begun.matches(": lab campus: recording ").count(), 3, "{begun}");
    hosts.exec("h-east-1", &["ping", "-4", "-c", "3", "-i", "0.2", "h-west-1"]).ok();
    let ask = |words: &[&str]| {
        hosts.over("hosts.yaml", &[&["packets", "-l", "campus", "--json"], words].concat())
    };
    let read = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
    };
    let of = |seen: &[Value], host: &str| seen.iter().filter(|one| one["host"] == host).count();
    // Three requests and three answers: in the east and in the west at a host's link, one of the switch's router, and one across.
    let seen = wait_until("all packets are recorded", SOON, || {
        let seen = read(&ask(&["--last", "1h", "h-east-1", "h-west-1", "icmp"]).ok());
        (of(&seen, "east") == 18 && of(&seen, "west") == 18).then_some(seen)
    });
    assert_eq!(of(&seen, "north"), 0);
    let time = |one: &Value| one["time_ns"].as_str().and_then(|ns| ns.parse().ok());
    let times: Vec<u64> = seen.iter().map(|one| time(one).expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let shown = hosts
        .over(
            "hosts.yaml",
            &["packets", "-l", "campus", "--last", "1h", "h-east-1", "h-west-1", "icmp"],
        )
        .ok();
    assert_eq!(shown.lines().count(), 36, "{shown}");
    assert!(
        shown.lines().all(|line| line.contains("  east  ") || line.contains("  west  ")),
        "{shown}"
    );
    let status = record(&["status", "--json"]).finish().code(0).json();
    assert_eq!(status.as_array().map(Vec::len), Some(3));
    // A host that does not answer: the others do.
    let file = std::fs::read_to_string(hosts.machine.scratch().path().join("hosts.yaml"));
    let file =
        file.expect("the hosts").replace(&format!("{}-west", hosts.outer), "no-such-network");
    hosts.machine.scratch().file("cut.yaml", file);
    let args =
        ["packets", "-l", "campus", "--json", "--last", "1h", "h-east-1", "h-west-1", "icmp"];
    let cut = hosts.over("cut.yaml", &args).finish().code(1).says("host \"west\": ");
    assert_eq!(read(&cut.text()).len(), 18);
    for verb in ["stop", "delete"] {
        record(&[verb]).finish().code(0);
    }
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    hosts.down();
}
