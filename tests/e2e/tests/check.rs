//! `check`: every wrong file gives exactly its expected output, exit code 2, and makes nothing.

use netloom_tests_e2e::{Machine, workspace_root};

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
    machine.netloom(["check"]).args(&files).finish().code(0);
    machine.untouched();
}
