//! `check --on`: a lab planned for several hosts. Nothing is made, and no host is asked.

use std::collections::BTreeMap;

use netloom_tests_e2e::{Machine, workspace_root};
use serde_json::{Value, json};

const LAB: &str = "name: campus
nodes:
  r1: {forwarding: true}
  r2: {forwarding: true}
  \"a{i}\": {for: {i: 1..4}, limits: {memory: 64MiB, cpu: 50%}}
  \"b{i}\": {for: {i: 1..4}}
switches: {east-lan: {}, west-lan: {}}
links:
  - {ends: [\"a{i}\", east-lan], for: {i: 1..4}}
  - {ends: [\"b{i}\", west-lan], for: {i: 1..4}}
  - [r1, east-lan]
  - [r2, west-lan]
  - [r1, r2]
place: {r1: east, r2: west}
";

const HOSTS: &str = "hosts:
  east: {ssh: lab@east.example.org, underlay: 192.0.2.1, capacity: {memory: 1GiB, cpu: 4}}
  west: {underlay: {address: 192.0.2.2, mtu: 9000}, capacity: {memory: 1GiB, cpu: 4}}
";

fn machine() -> Machine {
    let machine = Machine::new();
    machine.file(LAB);
    machine.scratch().file("hosts.yaml", HOSTS);
    machine
}

/// What `check --on hosts.yaml --json` says of `lab.yaml`.
fn account(machine: &Machine, more: &[&str]) -> Value {
    let args = ["check", "lab.yaml", "--on", "hosts.yaml", "--json"].iter().chain(more);
    machine.netloom(args).finish().code(0).json()
}

#[test]
fn a_lab_is_planned_for_two_hosts_with_one_link_across() {
    let machine = machine();
    let found = account(&machine, &["--costs"]);
    let nodes: BTreeMap<String, String> =
        serde_json::from_value(found["nodes"].clone()).expect("names and hosts");
    for (name, host) in &nodes {
        let expected = if name.starts_with('a') || name == "r1" { "east" } else { "west" };
        assert_eq!(host, expected, "{name}");
    }
    assert_eq!(found["switches"], json!({"east-lan": ["east"], "west-lan": ["west"]}));
    let [across] = found["across"].as_array().expect("a list").as_slice() else {
        panic!("{found:#}")
    };
    assert_eq!(
        (&across["link"], &across["hosts"], &across["bytes"], &across["packets"]),
        (&json!("r1:eth1--r2:eth1"), &json!(["east", "west"]), &json!(1570), &json!(2))
    );
    assert_eq!((&across["underlay_mtu"], &across["fitting_mtu"]), (&json!(1500), &json!(1550)));
    let hosts = found["hosts"].as_array().expect("a list");
    assert_eq!((&hosts[0]["ssh"], &hosts[0]["nodes"]), (&json!("lab@east.example.org"), &json!(5)));
    assert_eq!((&hosts[0]["cpu_milli"], &hosts[1]["cpu_milli"]), (&json!(2000), &json!(0)));
    // Every line of costs says how it is reckoned, and from where.
    let costs = found["costs"].as_array().expect("a list");
    assert!(costs.len() >= 7, "{found:#}");
    for cost in costs {
        let has = |key: &str| cost[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(has("what") && has("formula") && has("source"), "{cost}");
    }
    let messages = costs.iter().find(|cost| cost["what"] == "messages to bring it up");
    assert_eq!(messages.expect("a line")["value"], 10);
    // For a person.
    let told = machine.netloom(["check", "lab.yaml", "--on", "hosts.yaml"]).finish().code(0);
    let told =
        told.says("warning: link \"r1:eth1--r2:eth1\": a packet of 1500 bytes goes in 2 fragments");
    let told = told.says("an underlay MTU of 1550 avoids them, or links with mtu: 1450");
    for line in ["lab.yaml: good: 10 nodes, 2 switches, 11 links", "NAME", "east, pinned", "NEEDS"]
    {
        assert!(told.text().contains(line), "{line}: {told}");
    }
    assert!(!told.text().contains("FORMULA"), "{told}");
    machine.untouched();
}

#[test]
fn the_same_on_one_host_has_nothing_across() {
    let machine = machine();
    machine.file(&LAB.replace("r2: west", "r2: east"));
    machine.scratch().file("hosts.yaml", "hosts: {east: {underlay: 192.0.2.1}}\n");
    let found = account(&machine, &[]);
    assert_eq!((&found["across"], &found["hosts"][0]["links"]), (&json!([]), &json!(11)));
    assert_eq!(found.get("warnings"), None, "{found:#}");
    machine.untouched();
}

#[test]
fn an_earlier_placement_is_kept_when_the_file_changes() {
    let machine = machine();
    let first = account(&machine, &[]);
    machine.scratch().file("earlier.json", first.to_string());
    // Without it the new nodes would shift the balance.
    let more = LAB.replace("\"b{i}\": {for: {i: 1..4}}", "\"b{i}\": {for: {i: 1..4}}\n  new: {}");
    machine.file(&more.replace("- [r1, r2]", "- [r1, r2]\n  - [new, east-lan]"));
    let second = account(&machine, &["--earlier", "earlier.json"]);
    for (name, host) in first["nodes"].as_object().expect("a map") {
        assert_eq!(&second["nodes"][name], host, "{name}");
    }
    assert_eq!(second["nodes"]["new"], "east");
    machine.scratch().file("earlier.json", "{\"lab\": 7}");
    let args = ["check", "lab.yaml", "--on", "hosts.yaml", "--earlier", "earlier.json"];
    let told = machine.netloom(args).finish().code(2);
    told.says("earlier.json: lab: invalid type");
    machine.untouched();
}

#[test]
fn what_cannot_be_is_refused_with_the_names_and_code_2() {
    let machine = machine();
    let check = || machine.netloom(["check", "lab.yaml", "--on", "hosts.yaml"]).finish().code(2);
    machine.file(&LAB.replace("{r1: east, r2: west}", "{r1: eats, r2: north}"));
    let told = check().says("place: \"r1\": no host \"eats\" in the hosts file");
    told.says("place: \"r2\": no host \"north\" in the hosts file");
    machine.file(&LAB.replace("memory: 64MiB", "memory: 900MiB"));
    check().says("no host has room: ").says("node \"a");
    machine.file(LAB);
    let hosts = |text: &str| _ = machine.scratch().file("hosts.yaml", text);
    hosts("hosts:\n  a: {underlay: 192.0.2.1}\n  b: {underlay: 192.0.2.1}\n");
    let told = check().text();
    assert_eq!(
        told,
        "hosts.yaml:3:3: error: hosts \"a\" and \"b\" have the same underlay address 192.0.2.1\n  help: name each host \
         once\nhosts.yaml: 1 error\n"
    );
    hosts("hosts:\n  a: {underlay: 192.0.2.1}\n  a: {underlay: 192.0.2.2}\n");
    assert!(check().text().contains("\"a\""));
    // Errors of both files at once.
    machine.file("nodes: {a: {bogus: 1}}");
    hosts("hosts: {a: {}}");
    let told = check().text();
    assert!(
        told.contains("unknown key \"bogus\"") && told.contains("\"underlay\" is missing"),
        "{told}"
    );
    machine
        .netloom(["check", "a.yaml", "b.yaml", "--on", "hosts.yaml"])
        .finish()
        .code(2)
        .says("give one lab file");
    machine.netloom(["check", "lab.yaml", "--costs"]).finish().code(2).says("--on");
    machine
        .netloom(["check", "lab.yaml", "--on", "no-such.yaml"])
        .finish()
        .code(2)
        .says("no-such.yaml");
    machine.untouched();
}

#[test]
fn every_example_can_be_planned_for_hosts() {
    let machine = machine();
    let mut planned = 0;
    for entry in std::fs::read_dir(workspace_root().join("examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let hosts = machine.scratch().path().join("hosts.yaml");
        let args = [
            "check".as_ref(),
            path.as_os_str(),
            "--on".as_ref(),
            hosts.as_os_str(),
            "--json".as_ref(),
        ];
        let found = machine.netloom(args).finish().code(0).json();
        let count = |key: &str| -> u64 {
            let hosts = found["hosts"].as_array().expect("a list").iter();
            hosts.map(|host| host[key].as_u64().expect("a count")).sum()
        };
        assert_eq!(
            count("nodes"),
            u64::try_from(found["nodes"].as_object().expect("a map").len()).expect("few"),
            "{}",
            path.display()
        );
        planned += 1;
    }
    assert!(planned >= 5, "only {planned}");
    machine.untouched();
}
