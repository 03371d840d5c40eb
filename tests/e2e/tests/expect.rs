//! `netloom test`: labs are brought up, checked and taken down, whatever is found, and also when interrupted.

use std::path::Path;
use std::time::Duration;

use netloom_tests_e2e::{
    Finished, Machine, Run, machine, needs, program, wait_until, workspace_root,
};

/// How long a test may take where all processors are busy.
const BOUND: Duration = Duration::from_secs(300);

const GOOD: &str =
    "name: good\nnodes: {a: {}, b: {}}\nlinks: [[a, b]]\nexpect:\n  - reaches: [a, b]\n";

const WRONG: &str = "\
name: wrong
nodes: {a: {}, b: {loopback: 10.255.0.1}, c: {}}
links: [{ends: [a, b], addresses: {a: 10.1.0.1/24, b: 10.1.0.2/24}}]
expect:
  - reaches: [a, b]
  - {name: \"<nobody> & \\\"nothing\\\"\", reaches: [a, c]}
  - {cannot-reach: [a, b]}
  - {route: {node: a, to: 10.1.0.0/24, via: b}}
  - {route: {node: a, to: 10.255.0.1}}
  - {no-route: {node: a, to: b}}
  - {output: {node: a, command: [sh, -c, \"echo seen; exit 2\"], contains: other}}
  - {loss: {from: a, to: b, above: 50%, lasting: 200ms}}
  - {rate: {from: a, to: b, below: 1mbit, lasting: 1s}}
  - do: {exec: {a: [\"false\"]}}
  - reaches: [b, a]
";

fn test(machine: &Machine, args: &[&str]) -> Run {
    machine.netloom(["test"].iter().chain(args)).bound(BOUND)
}

/// The results, and that nothing runs any more.
fn tested(machine: &Machine, args: &[&str]) -> Finished {
    let done = test(machine, args).finish();
    let labs = machine.netloom(["ls"]).ok();
    assert_eq!(labs, "no lab is running\n");
    done
}

#[test]
fn what_does_not_hold_is_named_with_what_was_seen() {
    let machine = machine!();
    let file = machine.scratch().file("wrong.yaml", WRONG);
    let file = file.to_str().unwrap();
    let junit = machine.scratch().path().join("out.xml");
    let done = tested(&machine, &[file, "--json", "--junit", junit.to_str().unwrap()]).code(1);
    let report = &done.json()[0];
    let steps: Vec<(bool, &str, &str)> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| {
            (
                s["holds"].as_bool().unwrap(),
                s["name"].as_str().unwrap(),
                s["seen"].as_str().unwrap(),
            )
        })
        .collect();
    let holding: Vec<bool> = steps.iter().map(|(holds, ..)| *holds).collect();
    let f = false;
    assert_eq!(holding, [true, true, f, f, f, f, f, f, f, f, f, true], "{steps:#?}");
    for (at, name, part) in [
        (2, "<nobody> & \"nothing\"", "no address of one family"),
        (3, "a cannot reach b", "b (10.1.0.2) answers a after"),
        (4, "a has a route to 10.1.0.0/24 via b", "dev eth0"),
        (5, "a has a route to 10.255.0.1", "there is none"),
        (6, "a has no route to b", "dev eth0"),
        (7, "a: sh -c echo seen; exit 2 contains \"other\"", "exited 2\nseen"),
        (8, "loss from a to b above 50%", "0% lost, 0 of 200 packets"),
        (9, "rate from a to b below 1mbit", "arrived, 1.25mbit offered"),
        (10, "do: a: false", "exited 1"),
    ] {
        assert_eq!(steps[at].1, name);
        assert!(steps[at].2.contains(part), "{:?}", steps[at]);
    }
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("tests=\"12\" failures=\"9\" errors=\"0\" skipped=\"0\""), "{xml}");
    is_xml(&machine, &junit, "12 9");
    let text = tested(&machine, &[file]).code(1).text();
    assert!(text.contains("  FAIL  <nobody> & \"nothing\" (expected: a reaches c): "), "{text}");
    assert!(text.ends_with("3 of 12 steps\n"), "{text}");
    machine.untouched();
}

#[test]
fn frames_of_steps_that_do_not_hold_are_kept() {
    let machine = machine!();
    needs!("tshark");
    let file = machine.scratch().file("wrong.yaml", WRONG);
    let folder = machine.scratch().path().join("frames/all");
    let (file, captures) = (file.to_str().unwrap(), folder.to_str().unwrap());
    let text = tested(&machine, &[file, "--captures", captures]).code(1).text();
    let mut kept: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    let mut failed: Vec<String> = (2..=10).map(|step| format!("wrong-{step}.pcapng")).collect();
    failed.sort();
    assert_eq!(kept, failed, "{text}");
    assert!(text.contains(&format!("frames of this step: {captures}/wrong-2.pcapng")), "{text}");
    // Step 3 had an answer where none should be.
    let step = folder.join("wrong-3.pcapng");
    let tshark = program("tshark").unwrap();
    let read = Run::new(tshark).args(["-n", "-r", step.to_str().unwrap(), "-Y", "icmp.type == 0"]);
    let answers = read.dir(machine.scratch().path()).ok();
    assert!(answers.contains("10.1.0.2") && answers.contains("Echo (ping) reply"), "{answers}");
    machine.untouched();
}

#[test]
fn a_lab_without_links_says_why_there_are_no_frames() {
    let machine = machine!();
    let lab = "nodes: {a: {}}\nexpect: [{output: {node: a, command: [\"false\"]}}]\n";
    let file = machine.scratch().file("alone.yaml", lab);
    let folder = machine.scratch().path().join("frames");
    let args = [file.to_str().unwrap(), "--captures", folder.to_str().unwrap()];
    let text = tested(&machine, &args).code(1).text();
    assert!(text.contains("no frames of this step: there is no link in the lab"), "{text}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{text}");
    machine.untouched();
}

#[test]
fn results_that_have_no_place_are_refused_before_a_lab_is_made() {
    let machine = machine!();
    let file = machine.scratch().file("good.yaml", GOOD);
    let file = file.to_str().unwrap();
    let scratch = machine.scratch().path();
    for (junit, why) in [
        (scratch.join("none/out.xml"), "there is no folder"),
        (scratch.to_path_buf(), "it is a folder; name a file"),
    ] {
        let done = tested(&machine, &[file, "--junit", junit.to_str().unwrap()]).code(2).says(why);
        assert_eq!(done.text(), "", "{done}");
    }
    machine.untouched();
}

/// Has another program's parser read the results: how many cases, and how many failures.
fn is_xml(machine: &Machine, file: &Path, counts: &str) {
    let Some(python) = program("python3") else { return };
    let script = "import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); \
                  print(len(d.getElementsByTagName('testcase')), len(d.getElementsByTagName('failure')))";
    let file = file.to_str().unwrap();
    let run = Run::new(python).args(["-c", script, file]).dir(machine.scratch().path());
    assert_eq!(run.ok(), format!("{counts}\n"));
}

#[test]
fn the_example_holds() {
    let machine = machine!();
    needs!("python3", "ip");
    let file = workspace_root().join("examples/expect.yaml");
    let junit = machine.scratch().path().join("out.xml");
    let args = [file.to_str().unwrap(), "--junit", junit.to_str().unwrap()];
    let done = tested(&machine, &args).code(0);
    let text = done.text();
    assert!(
        text.contains("  ok    traffic goes round (expected: r1 has a route to web via r3): via"),
        "{text}"
    );
    is_xml(&machine, &junit, "22 0");
    machine.untouched();
}

#[test]
fn a_folder_is_tested_beside_a_running_lab_of_the_same_name() {
    let machine = machine!();
    machine.up(GOOD);
    let folder = machine.scratch().path().join("labs");
    std::fs::create_dir(&folder).unwrap();
    for name in ["one", "two", "three"] {
        std::fs::write(folder.join(format!("{name}.yaml")), GOOD).unwrap();
    }
    std::fs::write(folder.join("no-steps.yml"), "nodes: {a: {}}\n").unwrap();
    std::fs::write(folder.join("notes.txt"), "no lab\n").unwrap();
    let path = folder.to_str().unwrap();
    let text = test(&machine, &[path, "--jobs", "3"]).ok();
    assert!(text.ends_with("3 of 3 labs passed\n"), "{text}");
    std::fs::write(folder.join("two.yaml"), WRONG).unwrap();
    let done = test(&machine, &[path]).finish().code(1);
    assert!(done.text().contains("2 of 3 labs passed\nfailed: wrong ("), "{}", done.text());
    let labs = machine.netloom(["ls", "--json"]).finish().code(0).json();
    assert_eq!(labs.as_array().map(Vec::len), Some(1), "{labs}");
    machine.down();
}

#[test]
fn a_lab_that_does_not_come_up_is_an_error_and_a_wrong_file_is_none() {
    let machine = machine!();
    let text = GOOD.replace("a: {}", "a: {setup: [[\"false\"]]}");
    let file = machine.scratch().file("down.yaml", text);
    let done = tested(&machine, &[file.to_str().unwrap()]).code(1).text();
    assert!(done.contains("  ERROR lab \"good-test-"), "{done}");
    assert!(done.contains("setup 1 (false) exited 1"), "{done}");
    assert!(done.contains("  -     a reaches b: not come to"), "{done}");
    let file = machine.scratch().file("none.yaml", "nodes: {a: {}}\n");
    tested(&machine, &[file.to_str().unwrap()]).code(2).says("has no `expect`");
    let file = machine.scratch().file("wrong.yaml", format!("{GOOD}  - do: {{down: nothing}}\n"));
    let done = tested(&machine, &[file.to_str().unwrap()]).code(2);
    done.says("expect[1].do: link \"nothing\"");
    machine.untouched();
}

#[test]
fn an_interruption_takes_everything_down() {
    let machine = machine!();
    let text = GOOD.replace("expect:\n", "expect:\n  - do: {wait: 10min}\n");
    let file = machine.scratch().file("long.yaml", text);
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let child = test(&machine, &[file.to_str().unwrap()]).spawn();
        let pid = i32::try_from(child.id()).unwrap();
        wait_until("the lab", BOUND, || {
            let labs = machine.netloom(["ls", "--json"]).finish().code(0).json();
            (labs[0]["state"] == "up").then_some(())
        });
        netloom_tests_e2e::signal(pid, signal);
        let ended = child.wait_with_output().unwrap();
        assert!(!ended.status.success());
        wait_until("its end", BOUND, || {
            (machine.netloom(["ls"]).ok() == "no lab is running\n").then_some(())
        });
        if signal == rustix::process::Signal::INT {
            let text = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert!(text.contains("ERROR interrupted"), "{text}");
            assert!(text.contains("a reaches b: not come to"), "{text}");
        }
    }
    machine.untouched();
}
