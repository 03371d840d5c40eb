//! `up` of a running lab: it reports differences, and `--replace` applies them.

use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, machine, pair};

/// `up` of a file as it is now.
fn up_again(machine: &Machine, more: &[&str]) -> netloom_tests_e2e::Finished {
    let file = machine.scratch().path().join("lab.yaml");
    let words = ["up".as_ref(), file.as_os_str()];
    machine.netloom(words.into_iter().chain(more.iter().map(std::ffi::OsStr::new))).finish()
}

#[test]
fn an_edited_file_is_told_object_by_object() {
    let machine = machine!();
    machine.up(&pair(""));
    let inits = machine.inits();
    let edited = "name: pair\nnodes:\n  a: {env: {X: y}}\n  b: {}\n  c: {}\nlinks:\n  \
                  - {ends: [a, b], mtu: 1400}\n";
    machine.file(edited);
    let done = up_again(&machine, &[]).code(1);
    let words = [
        "lab \"pair\": already running, and its file has been changed since:",
        "\n  node c: added\n",
        "\n  node a: env.X added\n",
        "\n  link a:eth0--b:eth0: mtu 1400, was 1500\n",
        "`netloom up --replace FILE`",
    ];
    let done = words.iter().fold(done, |done, part| done.says(part));
    assert!(!done.errors().contains("another file"), "{done}");
    assert_eq!(machine.inits(), inits);
    let other = machine.scratch().file("other.yaml", "name: pair\nnodes: {a: {}}\n");
    let done = machine.netloom(["up".as_ref(), other.as_os_str()]).finish().code(1);
    let done = done.says("from another file").says("lab.yaml").says("node b: removed");
    assert!(done.errors().contains("link a:eth0--b:eth0: removed"), "{done}");
    // The same of a lab whose process was killed.
    kill_and_wait(machine.lab_process());
    up_again(&machine, &[]).code(1).says("lives on").says("node c: added");
    machine.down();
}

#[test]
fn what_was_changed_by_hand_is_told() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.ok("node create h9");
    machine.ok("node delete b");
    let done = up_again(&machine, &[]).code(0);
    let text = done.text();
    for part in
        ["lab pair: already running; ", "  node h9: added\n", "  node b: removed\n", "--replace"]
    {
        assert!(text.contains(part), "{text}");
    }
    // Both kinds of change, apart, and the same after a kill of the lab's process.
    machine.file("name: pair\nnodes: {a: {}, b: {}, c: {}}\nlinks: [[a, b]]\n");
    let done = up_again(&machine, &[]).code(1);
    let words = done.errors();
    let hand = words.find("manual changes").expect("the manual changes");
    let place = |part: &str| words.find(part).unwrap_or_else(|| panic!("lacks {part}: {words}"));
    assert!(place("node c: added") < hand && place("node h9: added") > hand, "{words}");
    kill_and_wait(machine.lab_process());
    machine.file(&pair(""));
    let text = up_again(&machine, &[]).code(0).text();
    assert!(text.contains("adopted") && text.contains("node h9: added"), "{text}");
    machine.down();
}

#[test]
fn a_lab_is_replaced_by_what_its_file_says() {
    let machine = machine!();
    machine.up(&pair(""));
    let inits = machine.inits();
    // Nothing happens for a file that cannot be brought up.
    for wrong in
        ["name: pair\nnodes: {a: {colour: red}}\n", "name: pair\nnodes: {a: {root: none/such}}\n"]
    {
        machine.file(wrong);
        up_again(&machine, &["--replace"]).code(if wrong.contains("colour") { 2 } else { 1 });
        assert_eq!(machine.inits(), inits);
    }
    machine.file("name: pair\nnodes: {a: {}, c: {}}\n");
    let text = up_again(&machine, &["--replace"]).code(0).text();
    assert!(text.starts_with("lab pair: 2 nodes, 0 links up in"), "{text}");
    assert_eq!(machine.nodes(), ["a", "c"]);
    // An orphan, too; and where there is none it is an `up` like any.
    kill_and_wait(machine.lab_process());
    machine.file(&pair(""));
    up_again(&machine, &["--replace"]).code(0);
    assert_eq!(machine.nodes(), ["a", "b"]);
    machine.ok("down");
    up_again(&machine, &["--replace"]).code(0);
    machine.down();
}

#[test]
fn a_replacement_that_fails_says_that_the_old_lab_is_gone() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.file(&pair("run: [[sh, -c, 'exit 3']], ready: {tcp: 80, timeout: 1s}"));
    let done = up_again(&machine, &["--replace"]).code(1);
    done.says("the lab that ran before has been taken down").says("not ready");
    machine.untouched();
}
