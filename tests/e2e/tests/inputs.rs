//! Wrong inputs: each a clear message, the right exit code, and nothing made.

use std::io::Write;

use netloom_tests_e2e::{Machine, pair};

#[test]
fn files_that_are_none() {
    let machine = Machine::new();
    machine.netloom(["up", "not-there.yaml"]).finish().code(2).says("not-there.yaml");
    machine.netloom(["check", "not-there.yaml"]).finish().code(2).says("not-there.yaml");
    machine.netloom(["import", "not-there"]).finish().code(2).says("\"not-there\": open: No such");
    machine.netloom(["up", "/"]).finish().code(2).says("/");
    machine.scratch().file("bytes.yaml", [0x6e, 0x61, 0xff, 0xfe]);
    machine.netloom(["check", "bytes.yaml"]).finish().code(2);
    machine.scratch().file("empty.yaml", "");
    machine.netloom(["check", "empty.yaml"]).finish().code(2);
    machine.scratch().file("own.yaml", pair(""));
    machine.netloom(["up", "own"]).finish().code(2).says("did you mean \"own.yaml\"?");
    machine.netloom(["import", "own.yaml"]).finish().code(2).says("it is a lab file already");
    for (picture, tip) in [("lab.png", "dot -Tpng"), ("LAB.PDF", "dot -Tpdf")] {
        let words = ["graph", "own.yaml", "-o", picture];
        machine.netloom(words).finish().code(2).says("netloom draws SVG").says(tip);
        assert!(!machine.scratch().path().join(picture).exists(), "{picture}");
    }
    machine.netloom(["graph", "own.yaml", "--dot", "-o", "lab.ps"]).finish().code(0);
    machine.untouched();
}

#[test]
fn a_file_of_100_mb_is_refused_at_once() {
    let machine = Machine::new();
    let path = machine.scratch().path().join("huge.yaml");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for _ in 0..100 {
        file.write_all(&[b'a'; 1 << 20]).unwrap();
    }
    drop(file);
    let done = machine.netloom(["check", "huge.yaml"]).finish().code(2);
    let said = done.text() + &done.errors();
    assert!(said.contains("huge.yaml") && said.len() < 2000, "a short message: {said}");
    machine.untouched();
}

#[test]
fn names_that_are_none() {
    let machine = Machine::new();
    machine.file(&pair(""));
    for name in ["a/b", "..", "", ".hidden", &"x".repeat(300)] {
        let done = machine.netloom(["up", "lab.yaml", "--name", name]).finish().code(2);
        assert!(!done.errors().is_empty());
    }
    machine.untouched();
}

#[test]
fn labs_that_are_not_up() {
    let machine = Machine::new();
    machine.netloom(["down", "nowhere"]).finish().code(1).says("nowhere");
    machine.netloom(["status", "nowhere"]).finish().code(1).says("nowhere");
    machine.netloom(["exec", "a", "--", "true"]).finish().code(1);
    machine.netloom(["down", "--all"]).finish().code(0);
    machine.netloom(["ls"]).finish().code(0);
    machine.untouched();
}

#[test]
fn wrong_usage_is_2() {
    let machine = Machine::new();
    for args in [&["up"][..], &["no-such-verb"], &["exec"], &["up", "--no-such-flag"]] {
        machine.netloom(args).finish().code(2);
    }
    machine.netloom(["--help"]).finish().code(0);
    machine.netloom(["--version"]).finish().code(0);
    machine.untouched();
}
