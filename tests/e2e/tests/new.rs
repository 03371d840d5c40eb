//! `netloom new` and `netloom example`: labs to begin with.

use std::time::Duration;

use netloom_tests_e2e::{machine, needs};

#[test]
fn a_template_is_written_checked_and_not_replaced() {
    let machine = machine!();
    let listed = machine.netloom(["new"]).ok();
    for name in ["two-sites", "office", "frr-ospf", "frr-bgp", "openflow", "fat-tree", "ci-test"] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
        let file = machine.scratch().path().join(format!("{name}.yaml"));
        let file = file.to_str().unwrap();
        assert_eq!(
            machine.netloom(["new", name]).ok(),
            format!("{name}.yaml: written; netloom up {name}.yaml\n")
        );
        machine.netloom(["check", file]).finish().code(0);
        let again = machine.netloom(["new", name]).finish().code(2);
        again.says("is there already; --force replaces it");
        machine.netloom(["new", name, "--force", "-o", file]).finish().code(0);
    }
    assert_eq!(machine.netloom(["example"]).ok(), listed);
    // As it was called before.
    machine.netloom(["new", "bgp"]).finish().code(2).says("\"frr-bgp.yaml\" is there already");
    let tree = machine.netloom(["new", "fat-tree", "6", "-o", "dc.yaml"]).ok();
    assert_eq!(tree, "dc.yaml: written; netloom up dc.yaml\n");
    let text = std::fs::read_to_string(machine.scratch().path().join("dc.yaml")).unwrap();
    assert!(text.starts_with("# A fat tree of k = 6: 6 pods"), "{text}");
    for (words, code, told) in [
        (["new", "bpg"].as_slice(), 2, "bgp"),
        (&["new", "fat-tree", "5", "-o", "five.yaml"], 2, "an even number from 2 to 16"),
        (&["new", "two-sites", "lab.yaml"], 2, "the file to write is given by --output"),
        (&["new", "office", "4", "-o", "four.yaml"], 2, "office: has no SIZE"),
        (&["new", "office", "-o", "none/office.yaml"], 1, "No such file or directory"),
    ] {
        machine.netloom(words).finish().code(code).says(told);
    }
    for left in ["five.yaml", "four.yaml", "none"] {
        assert!(!machine.scratch().path().join(left).exists(), "{left}");
    }
    machine.untouched();
}

#[test]
fn an_example_is_up_at_once() {
    needs!("python3", "curl");
    let machine = machine!();
    let up = machine.netloom(["example", "two-sites"]).bound(Duration::from_secs(180)).ok();
    assert!(up.contains("lab two-sites: 5 nodes, 5 links up in "), "{up}");
    machine.all_reach_all();
    // The file is there to be read and changed.
    let file = machine.scratch().path().join("data/examples/two-sites.yaml");
    assert!(std::fs::read_to_string(&file).unwrap().contains("netloom up "));
    machine.netloom(["apply", "--check", file.to_str().unwrap()]).finish().code(0);
    machine.netloom(["example", "two-sites"]).finish().code(0);
    machine.down();
}

#[test]
fn the_firewall_of_the_example_holds() {
    needs!("python3", "curl", "nft");
    let machine = machine!();
    let file = netloom_tests_e2e::workspace_root().join("examples/ci-test.yaml");
    let args = ["test", file.to_str().unwrap()];
    let tested = machine.netloom(args).bound(Duration::from_secs(300)).finish().code(0);
    assert!(
        tested.text().contains("ok    its other port is closed to clients"),
        "{}",
        tested.text()
    );
    machine.untouched();
}
