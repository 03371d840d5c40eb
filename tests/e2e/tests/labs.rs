//! Several labs at once, with the same node names, and labs brought up twice.

use netloom_tests_e2e::{machine, pair};

#[test]
fn two_labs_with_the_same_names_do_not_meet() {
    let machine = machine!();
    let file = machine.file(&pair(""));
    let file = file.to_str().unwrap();
    machine.netloom(["up", file, "--name", "one"]).finish().code(0);
    machine.netloom(["up", file, "--name", "two"]).finish().code(0);
    let listed = machine.netloom(["ls"]).ok();
    assert!(listed.contains("one") && listed.contains("two"), "{listed}");
    machine.netloom(["-l", "one", "exec", "a", "--", "touch", "/tmp/only-in-one"]).ok();
    let there =
        |lab| machine.netloom(["-l", lab, "exec", "a", "--", "test", "-e", "/tmp/only-in-one"]);
    there("one").finish().code(0);
    there("two").finish().code(1);
    for lab in ["one", "two"] {
        machine.netloom(["-l", lab, "ping", "--all"]).finish().code(0);
    }
    // Which lab is meant must be said.
    let done = machine.netloom(["exec", "a", "--", "true"]).finish().says("-l");
    assert!(matches!(done.status.code(), Some(1 | 2)), "{done}");
    machine.netloom(["down", "one"]).finish().code(0);
    machine.netloom(["ping", "--all"]).finish().code(0);
    machine.down();
}

#[test]
fn a_second_up_of_the_same_file_changes_nothing() {
    let machine = machine!();
    machine.up(&pair(""));
    let first = machine.inits();
    machine.up(&pair(""));
    assert_eq!(machine.inits(), first);
    machine.down();
}

#[test]
fn both_come_up_at_the_same_time() {
    let machine = machine!();
    let file = machine.file(&pair(""));
    let file = file.to_str().unwrap();
    let start = |name| machine.netloom(["up", file, "--name", name]).spawn();
    for mut child in ["one", "two", "three"].map(start) {
        let status = child.wait().expect("wait");
        assert!(status.success(), "{status}");
    }
    let labs = machine.netloom(["ls", "--json"]).finish().code(0).json();
    assert_eq!(labs.as_array().or(labs["labs"].as_array()).map(Vec::len), Some(3));
    machine.down();
}
