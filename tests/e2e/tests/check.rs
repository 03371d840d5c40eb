//! `check`: every wrong file gives exactly its expected output, exit code 2, and makes nothing.

use netloom_tests_e2e::{Machine, machine, needs, workspace_root};

#[test]
fn every_bad_file_gives_its_expected_output() {
    let folder = workspace_root().join("tests/e2e/bad");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .expect("folder of bad files")
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "only {} bad files", files.len());
    let machine = Machine::new();
    let mut wrong = vec![];
    for name in files {
        let expected = folder.join(name.replace(".yaml", ".expected"));
        let expected = std::fs::read_to_string(expected).unwrap_or_default();
        let done = machine.netloom(["check", &name]).dir(&folder).finish().code(2);
        let printed = done.text() + &done.errors();
        if printed != expected {
            wrong.push(format!("{name}: expected\n{expected}\ngot\n{printed}"));
        }
        // The same file does not come up, either.
        machine.netloom(["up", &name]).dir(&folder).finish().code(2);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    machine.untouched();
}

#[test]
fn every_example_is_valid() {
    let machine = Machine::new();
    let mut files = vec![];
    for entry in std::fs::read_dir(workspace_root().join("examples")).expect("examples") {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            files.push(path);
        }
    }
    assert!(files.len() >= 5, "only {} examples", files.len());
    let told = machine.netloom(["check"]).args(&files).finish().code(0);
    assert_eq!(told.errors(), "", "an example has something that is probably not meant");
    machine.untouched();
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let lab = |forwarding: &str| {
        format!(
            "name: between\nnodes: {{a: {{}}, m: {{{forwarding}}}, b: {{}}}}\nlinks: [[a, m], [m, b]]\n\
             expect:\n  - reaches: [a, m]\n  - {{reaches: [a, b], within: 100ms}}\n"
        )
    };
    let warning = "node \"m\" joins the networks of \"a\" and \"b\" and does not forward between them; write \
                   `forwarding: true`, or `forwarding: false` if that is meant";
    let machine = machine!();
    machine.file(&lab(""));
    machine.netloom(["check", "lab.yaml"]).finish().code(0).says(warning);
    machine.netloom(["up", "lab.yaml"]).finish().code(0).says(&format!("warning: {warning}\n"));
    // Once is enough.
    let again = machine.netloom(["up", "lab.yaml"]).finish().code(0);
    assert_eq!(again.errors(), "");
    let tested = machine.netloom(["test", "lab.yaml"]).finish().code(1).text();
    let failed = tested.split("FAIL").nth(1).expect("a step that does not hold");
    assert_eq!(
        (tested.matches(warning).count(), failed.matches(warning).count()),
        (1, 1),
        "{tested}"
    );
    for decided in ["forwarding: true", "forwarding: false"] {
        machine.file(&lab(decided));
        let told = machine.netloom(["check", "lab.yaml"]).finish().code(0);
        assert_eq!(told.errors(), "", "{decided}");
    }
    machine.down();
}

/// An expression is one of libpcap's, which both verbs ask.
#[test]
fn check_and_up_refuse_an_expression_in_the_same_words() {
    needs!("libpcap");
    let machine = machine!();
    machine.file("name: f\nnodes: {a: {}, b: {}}\nlinks: [{ends: [a, b], drop: icmp and}]\n");
    let told = |verb: &str, code: i32| {
        let done = machine.netloom([verb, "lab.yaml"]).finish().code(code);
        done.says("link \"a:eth0--b:eth0\": drop: filter \"icmp and\": compile: ").errors()
    };
    assert_eq!(told("check", 2), told("up", 1));
    machine.untouched();
}

/// Lines of a `bpf` filter of GNS3, with the remedy that gns3-server 2.2.61 has for one that libpcap does not take.
#[test]
fn a_line_that_is_no_expression_is_left_out_of_an_import() {
    needs!("libpcap");
    let machine = machine!();
    let text = r#"{"name": "f", "project_id": "x", "topology": {"nodes": [
        {"node_id": "p1", "node_type": "vpcs", "name": "p1", "properties": {}},
        {"node_id": "p2", "node_type": "vpcs", "name": "p2", "properties": {}}], "links": [{"link_id": "l",
        "nodes": [{"node_id": "p1", "adapter_number": 0, "port_number": 0},
                  {"node_id": "p2", "adapter_number": 0, "port_number": 0}],
        "filters": {"bpf": ["icmp and\narp"]}}]}}"#;
    machine.scratch().file("f.gns3", text);
    let done = machine.netloom(["import", "f.gns3"]).finish().code(0);
    let done = done.says("bpf[0]: changed: \"icmp and\" is left out: ");
    assert!(done.text().contains("drop: \"arp\""), "{}", done.text());
    machine.netloom(["check", "f.gns3"]).finish().code(0);
    machine.untouched();
}
