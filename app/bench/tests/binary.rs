//! The binary itself, as cargo builds it: what it says of itself, and how it ends.

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netloom-bench"));
    command.args(words).env_remove("NETLOOM_BIN").output().expect("start netloom-bench")
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_was_wrong() {
    for (words, named) in [
        (&["labb"][..], "a similar value exists: 'lab'"),
        (&[], "<NAME>"),
        (&["lab", "/tmp"], "only the experiment `disk` takes a folder"),
    ] {
        let out = run(words);
        assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(2), true));
        assert!(said(&out).contains(named), "{}", said(&out));
    }
}

#[test]
fn a_program_that_is_not_netloom_is_not_measured() {
    for (given, named) in
        [("/nowhere/netloom", "No such file"), ("/bin/echo", "this is not netloom")]
    {
        let out = run(&["disk", "--quick", "--netloom", given]);
        assert_eq!(out.status.code(), Some(1));
        assert!(said(&out).contains(named), "{}", said(&out));
    }
}

#[test]
fn small_programs_and_candidates_need_no_netloom() {
    let out = run(&["peer", "requests", "0.01"]);
    assert!(out.status.success(), "{}", said(&out));
    assert!(String::from_utf8_lossy(&out.stdout).trim().parse::<f64>().is_ok());
    let out = run(&["complete-words", "--quick", "wi"]);
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("wire\t"));
    let out = run(&["peer", "udp", "1"]);
    assert_eq!((out.status.code(), said(&out).contains("`udp`")), (Some(1), true));
}
