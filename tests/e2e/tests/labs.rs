//! Several labs at once, with the same node names, and labs brought up twice.

use std::time::Duration;

use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{machine, needs, pair, wait_until};

use super::apply::Flow;

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
        wait_until("its nodes reach each other", SOON, || {
            let asked = machine.netloom(["-l", lab, "ping", "--all"]).finish();
            asked.status.success().then_some(())
        });
    }
    // Which lab is meant must be said.
    let done = machine.netloom(["exec", "a", "--", "true"]).finish().says("-l");
    assert!(matches!(done.status.code(), Some(1 | 2)), "{done}");
    machine.netloom(["down", "one"]).finish().code(0);
    machine.all_reach_all();
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

/// A sender whose last bytes nobody acknowledges keeps its network for minutes, if it is not told to give up.
#[test]
fn a_lab_goes_at_once_while_bytes_are_on_their_way() {
    needs!("python3");
    let machine = machine!();
    machine.up("name: way\nnodes: {a: {}, b: {}}\nlinks: [{ends: [a, b], delay: 50ms}]\n");
    let flow = Flow::start(&machine, "a", "b");
    machine.netloom(["down", "way"]).bound(Duration::from_secs(60)).finish().code(0);
    drop(flow);
    machine.untouched();
}

#[test]
fn a_lab_is_named_by_flag_variable_and_file() {
    let machine = machine!();
    let file = machine.file(&pair(""));
    let file = file.to_str().unwrap();
    let names = || {
        let listed = machine.netloom(["ls", "--json"]).finish().code(0).json();
        let name = |lab: &serde_json::Value| lab["name"].as_str().unwrap().to_owned();
        listed.as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    machine.netloom(["up", "-l", "one", file]).finish().code(0);
    machine.netloom(["up", file]).env("NETLOOM_LAB", "two").finish().code(0);
    assert_eq!(names(), ["one", "two"]);
    let done = machine.netloom(["up", "-l", "one", "--name", "three", file]).finish().code(2);
    done.says("-l one and --name three name different labs");
    machine.netloom(["-l", "one", "down", "two"]).finish().code(2).says("different labs");
    machine.netloom(["exec", "a", "--", "true"]).finish().code(2).says("several labs run");
    machine.netloom(["exec", "a", "--", "true"]).env("NETLOOM_LAB", "two").finish().code(0);
    // A variable yields to a flag and to an argument.
    let status = machine.netloom(["status", "one"]).env("NETLOOM_LAB", "two").ok();
    assert!(status.starts_with("lab one: up"), "{status}");
    machine.netloom(["down"]).env("NETLOOM_LAB", "two").finish().code(0);
    machine.netloom(["down", file]).finish().code(1).says("pair");
    machine.netloom(["up", file]).finish().code(0);
    // Whatever else is wrong with it by now.
    std::fs::write(file, "name: pair\nnodes: {a: {colour: red}}\n").expect("write the file");
    assert!(machine.netloom(["status", file]).ok().starts_with("lab pair: up"));
    machine.netloom(["-l", file, "exec", "a", "--", "true"]).finish().code(0);
    machine.netloom(["down", file]).finish().code(0);
    assert_eq!(names(), ["one"]);
    machine.netloom(["status", "no/such.yaml"]).finish().code(2).says("no/such.yaml");
    machine.down();
}

#[test]
fn a_file_does_not_take_down_the_lab_of_another() {
    let machine = machine!();
    let own = machine.file(&pair(""));
    machine.netloom(["up".as_ref(), own.as_os_str()]).finish().code(0);
    let other = machine.scratch().file("other.yaml", pair(""));
    let other = other.to_str().unwrap();
    for words in [["down", other].as_slice(), &["-l", other, "down"]] {
        let done = machine.netloom(words).finish().code(2);
        done.says("\"pair\" that runs is from another file").says("`netloom down pair`");
    }
    // By another path to its own file.
    let link = machine.scratch().path().join("link.yaml");
    std::os::unix::fs::symlink(&own, &link).expect("make a link");
    machine.netloom(["down".as_ref(), link.as_os_str()]).finish().code(0);
    // A file that was moved is still the same lab.
    machine.netloom(["up".as_ref(), own.as_os_str()]).finish().code(0);
    let moved = machine.scratch().path().join("moved.yaml");
    std::fs::rename(&own, &moved).expect("move the file");
    machine.netloom(["down".as_ref(), moved.as_os_str()]).finish().code(0);
    let none = machine.netloom(["status", "pair"]).finish().code(1);
    none.says("lab \"pair\": not running; no lab is; `netloom up FILE` brings one up");
    let none = machine.netloom(["status", moved.to_str().unwrap()]).finish().code(1);
    none.says("not running; `netloom up ").says("moved.yaml` brings it up");
    machine.untouched();
}

#[test]
fn the_variable_of_a_node_names_no_lab_that_is_seen_from_there() {
    let machine = machine!();
    machine.up("name: t\nnodes:\n  outer: {children: {nodes: {inner: {}}}}\n");
    let listed = machine.inside("outer", ["node", "list", "--json"]).finish().code(0).json();
    assert_eq!(netloom_tests_e2e::live::names(&listed), ["inner"]);
    machine.down();
}

#[test]
fn the_folder_of_labs_goes_only_if_netloom_made_it() {
    let machine = machine!();
    let file = machine.file(&pair(""));
    let file = file.to_str().unwrap();
    let base = machine.scratch().path().to_owned();
    for (runtime, given) in [(base.join("given"), true), (base.join("made"), false)] {
        if given {
            std::fs::create_dir(&runtime).expect("make a folder");
        }
        for word in ["up", "down"] {
            let args: &[&str] = if word == "up" { &["up", file] } else { &["down"] };
            machine.netloom(args).env("NETLOOM_RUNTIME_DIR", &runtime).finish().code(0);
        }
        assert_eq!(runtime.is_dir(), given);
        if given {
            let left = std::fs::read_dir(&runtime).expect("list").count();
            assert_eq!(left, 0, "{}", runtime.display());
        }
    }
    machine.untouched();
}

#[test]
fn a_switch_is_found_in_the_lab_that_a_file_names() {
    let machine = machine!();
    let text = "name: inner\nnodes: {a: {}}\nswitches: {s: {kind: shm}}\nlinks: [[a, s]]\n";
    let file = machine.file(text);
    let file = file.to_str().unwrap();
    machine.netloom(["up", file]).finish().code(0);
    machine.netloom(["up", "--name", "other", file]).finish().code(0);
    machine.netloom(["-l", file, "capture", "switch:s", "-q", "-d", "1ms"]).finish().code(0);
    let to = "--from 10.9.9.8 --to 10.9.9.9 --to-mac 02:00:00:00:00:01 -c 1".split(' ');
    let send = ["-l", file, "generate", "switch:s"].into_iter().chain(to);
    machine.netloom(send).finish().code(0);
    let done = machine.netloom(["-l", file, "plug", "nl-none", "none"]).finish().code(1);
    done.says("switch \"none\"").says("inner.none");
    machine.down();
}

#[test]
fn a_lab_comes_up_from_standard_input() {
    let machine = machine!();
    let up = |text: &str, args: &[&str]| {
        machine.netloom(["up", "-"].iter().chain(args)).input(text).finish()
    };
    let first = up(&pair(""), &[]).code(0).text();
    assert!(first.starts_with("lab pair: 2 nodes"), "{first}");
    let again = up(&pair(""), &[]).code(0).text();
    assert!(again.starts_with("lab pair: already running"), "{again}");
    machine.all_reach_all();
    up("nodes: {a: {}}\n", &[]).code(2).says("(standard input):1:1").says("name: my-lab");
    let named = up("nodes: {a: {}}\n", &["--name", "named"]).code(0).text();
    assert!(named.starts_with("lab named: 1 node"), "{named}");
    machine.netloom(["down", "named"]).finish().code(0);
    up("name: x\nnodes: {a: {colour: red}}\n", &[]).code(2).says("(standard input):2:");
    machine.netloom(["check", "-"]).input(pair("")).finish().code(0);
    machine.down();
}
