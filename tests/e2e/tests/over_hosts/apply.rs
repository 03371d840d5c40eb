//! `apply --on`: a lab over hosts becomes the one of another file.

use std::collections::BTreeMap;

use netloom_kit::Run;
use netloom_tests_e2e::{machine, needs, root_only};
use serde_json::Value;

use super::{Hosts, addresses};

impl Hosts {
    /// `apply --on`, with the campus changed by each pair of words.
    fn apply(&self, changes: &[(&str, &str)], more: &[&str]) -> Run {
        let scratch = self.machine.scratch();
        let path = netloom_tests_e2e::workspace_root().join("examples/three-hosts/campus.yaml");
        let mut text = std::fs::read_to_string(path).expect("the example");
        for (old, new) in changes {
            let changed = text.replacen(old, new, 1);
            assert_ne!(changed, text, "{old}");
            text = changed;
        }
        scratch.file("campus.yaml", text);
        self.over("hosts.yaml", &[&["apply", "campus.yaml"], more].concat())
    }

    fn parts(&self) -> Vec<Value> {
        let shown =
            self.over("hosts.yaml", &["status", "campus", "--json"]).finish().code(0).json();
        shown.as_array().expect("a list").clone()
    }

    /// By node: its host and its process.
    fn lives(&self) -> BTreeMap<String, (String, i64)> {
        let mut found = BTreeMap::new();
        for part in self.parts() {
            let host = part["host"].as_str().expect("a name").to_owned();
            for node in part["lab"]["nodes"].as_array().expect("a list") {
                let name = node["name"].as_str().expect("a name").to_owned();
                found.insert(name, (host.clone(), node["pid"].as_i64().expect("a pid")));
            }
        }
        found
    }

    fn all_pairs(&self) -> Vec<(u64, u64)> {
        Hosts::all_answer(|| self.over("hosts.yaml", &["ping", "--all", "--json", "-l", "campus"]))
    }

    /// The whole lab has the addresses that it has on one host.
    fn is_as_on_one(&self) {
        let there = self.parts();
        let there = addresses(there.iter().map(|part| &part["lab"]));
        self.machine.netloom(["up", "campus.yaml"]).finish().code(0);
        let here = self.machine.netloom(["status", "campus", "--json"]).finish().code(0).json();
        self.machine.netloom(["down", "campus"]).finish().code(0);
        assert_eq!(there, addresses([&here]));
    }
}

/// One node more in the west, and a link of its own between the first hosts of two buildings.
const GROWN: [(&str, &str); 2] = [
    ("  \"cam-{b}\"", "  guest-west: {}\n  \"cam-{b}\""),
    (
        "  - [r-east, r-north]",
        "  - [guest-west, lan-west]\n  - {ends: [h-east-1, h-west-1], name: short}\n  - [r-east, r-north]",
    ),
];

#[test]
fn a_changed_file_changes_the_parts_that_it_touches() {
    root_only!("links across need root");
    needs!("ip", "ping");
    let hosts = Hosts::new(machine!());
    hosts.apply(&[], &[]).finish().code(2).says("is on none of these hosts");
    hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
    let before = hosts.lives();
    let same = hosts.apply(&[], &[]).finish().code(0).text();
    assert_eq!(same, "lab campus is as the file says\n");
    hosts
        .at("east", &["apply", "campus.yaml"])
        .finish()
        .code(1)
        .says("netloom apply FILE --on HOSTS");
    // A look changes nothing.
    let looked = hosts.apply(&GROWN, &["--check"]).finish().code(4).text();
    assert!(looked.contains("host \"west\": ") && looked.contains("guest-west"), "{looked}");
    assert!(!looked.contains("host \"north\": "), "{looked}");
    assert_eq!(hosts.lives(), before);
    // A node, and a link across between living nodes.
    let done = hosts.apply(&GROWN, &["--yes"]).finish().code(0).text();
    assert!(done.contains("lab campus is as the file says on 3 hosts, after "), "{done}");
    let grown = hosts.lives();
    assert_eq!(grown["guest-west"].0, "west");
    let kept = grown.iter().filter(|(name, _)| *name != "guest-west");
    assert_eq!(kept.map(|(n, of)| (n.clone(), of.clone())).collect::<BTreeMap<_, _>>(), before);
    assert_eq!(hosts.all_pairs(), [(156, 156), (156, 156)]);
    let west = hosts.address("west", "short");
    hosts.exec("h-east-1", &["ping", "-c", "1", "-M", "do", "-s", "1472", &west]).ok();
    hosts.is_as_on_one();
    // A pin moves it: it is made there, and its links lead elsewhere.
    let moved = [&GROWN[..], &[("place:\n", "place:\n  h-west-1: north\n")]].concat();
    hosts.apply(&moved, &[]).finish().code(2).says("give --yes");
    hosts.apply(&moved, &["--yes"]).finish().code(0);
    let there = hosts.lives();
    assert_eq!(there["h-west-1"].0, "north");
    for (name, of) in there.iter().filter(|(name, _)| *name != "h-west-1") {
        assert_eq!(of, &grown[name], "{name}");
    }
    assert_eq!(hosts.all_pairs(), [(156, 156), (156, 156)]);
    let north = hosts.address("north", "short");
    hosts.exec("h-east-1", &["ping", "-c", "1", &north]).ok();
    // All of it goes again.
    hosts.apply(&[], &["--yes"]).finish().code(0);
    assert_eq!(hosts.lives().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert_eq!(hosts.all_pairs(), [(132, 132), (132, 132)]);
    hosts.is_as_on_one();
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    hosts.down();
}

#[test]
fn what_one_host_cannot_change_is_taken_back_on_all() {
    root_only!("links across need root");
    needs!("ip", "ping", "python3");
    let hosts = Hosts::new(machine!());
    hosts.over("hosts.yaml", &["up", "campus.yaml"]).finish().code(0);
    let before = hosts.lives();
    // The west lacks a file; others get their nodes, and lose them again.
    let missing = hosts.machine.scratch().path().join("missing");
    let lacks = format!(
        "  late-east: {{}}\n  late-west: {{files: {{/etc/late: {{from: {}}}}}}}\n  \"cam-{{b}}\"",
        missing.display()
    );
    let told = hosts.apply(&[("  \"cam-{b}\"", &lacks)], &["--yes"]).finish().code(1);
    let told = told.says("host \"west\": ").says("missing");
    told.says("all hosts have what they had");
    assert_eq!(hosts.lives(), before);
    assert_eq!(hosts.all_pairs(), [(132, 132), (132, 132)]);
    assert_eq!(hosts.apply(&[], &[]).finish().code(0).text(), "lab campus is as the file says\n");
    // The agent of the north ends in the look, and while it changes its part.
    let _writes_the_file = hosts.apply(&GROWN, &["--yes"]);
    for (step, left) in [
        ("told:applied", "nothing was changed"),
        ("passed:apply!", "the file of before, applied again, turns them back"),
    ] {
        let file = hosts.dying(step);
        let told = hosts.over(&file, &["apply", "campus.yaml", "--yes"]).finish().code(1);
        told.says("host \"north\": its agent has ended").says(left);
        assert_eq!(hosts.lives(), before);
    }
    hosts.apply(&[], &["--yes"]).finish().code(0);
    assert_eq!(hosts.lives(), before);
    assert_eq!(hosts.all_pairs(), [(132, 132), (132, 132)]);
    hosts.over("hosts.yaml", &["down", "campus"]).finish().code(0);
    hosts.down();
}
