//! The binary itself, as cargo builds it: what it says of itself, and how it ends.

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netloom")).args(words).output().expect("start netloom")
}

#[test]
fn it_has_the_version_of_its_package() {
    let out = run(&["--version"]);
    assert!(out.status.success());
    assert_eq!(out.stdout, concat!("netloom ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_was_wrong() {
    let out = run(&["fly"]);
    let words = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(2), true));
    assert!(words.contains("'fly'"), "{words}");
}

#[test]
fn errors_that_nobody_reads_end_as_others_do() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_netloom"));
    let status = command.args(["check", "/nonexistent/lab.yaml"]).stderr(writer).status();
    assert_eq!(status.expect("start netloom").code(), Some(2));
}
