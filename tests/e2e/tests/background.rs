//! What netloom and the programs it starts do with signals that its caller had ignored: a shell that is not
//! interactive starts background jobs with SIGINT and SIGQUIT ignored, nohup programs with SIGHUP.

use std::time::Duration;

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, Run, machine, pair, signal, wait_until};
use rustix::process::Signal;

/// What a program says of the signals that it ignores.
const IGNORED: &str = "grep ^SigIgn: /proc/self/status";

/// A run of netloom whose caller ignores SIGINT, SIGQUIT and SIGHUP.
fn in_background(machine: &Machine, words: &[&str]) -> Run {
    let binary = netloom_kit::Binary::find();
    let trap = ["-c", "trap '' INT QUIT HUP; exec \"$@\"", "sh"].map(std::ffi::OsString::from);
    let all = trap.into_iter().chain([binary.path().as_os_str().to_owned()]);
    let all: Vec<_> = all.chain(words.iter().map(std::ffi::OsString::from)).collect();
    Run::new("/bin/sh").args(all).env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
}

/// SIGHUP, SIGINT, SIGQUIT and SIGTERM in a set of signals.
const LOOKED_AT: u64 = 0b100_0000_0000_0111;

/// Which of these are in a line of /proc/PID/status. C libraries keep others to themselves.
fn of_line(line: &str) -> u64 {
    let bits = line.split_ascii_whitespace().last().expect("a set");
    u64::from_str_radix(bits, 16).expect("bits") & LOOKED_AT
}

/// The same of a process.
fn among_them(pid: i32, set: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    of_line(status.lines().find(|line| line.starts_with(set)).expect("the set"))
}

#[test]
fn programs_of_nodes_do_not_depend_on_who_called() {
    let machine = machine!();
    let file =
        machine.file(&pair(&format!("run: [[sh, -c, '{IGNORED}; exec tail -f /dev/null']]")));
    in_background(&machine, &["up", file.to_str().unwrap()]).finish().code(0);
    let said = wait_until("the program speaks", Duration::from_secs(60), || {
        let log = machine.netloom(["logs", "a"]).ok();
        log.contains("SigIgn").then_some(log)
    });
    assert_eq!(of_line(&said), 0, "{said}");
    let lab = machine.lab_process();
    assert_eq!(among_them(lab, "SigIgn"), 0);
    machine.down();
}

#[test]
fn exec_passes_on_what_its_caller_ignores() {
    let machine = machine!();
    machine.up(&pair(""));
    let words = ["exec", "a", "--", "sh", "-c", IGNORED];
    assert_eq!(of_line(&in_background(&machine, &words).ok()), 0b111);
    assert_eq!(of_line(&machine.netloom(words).ok()), 0);
    machine.down();
}

#[test]
fn what_runs_until_told_ends_by_term_and_leaves_ignored_signals_ignored() {
    let machine = machine!();
    let file = machine.file(&pair("run: [[sh, -c, 'echo begun; exec tail -f /dev/null']]"));
    let mut run = Held::start(in_background(&machine, &["run", file.to_str().unwrap()]));
    assert!(run.line().contains("begun"));
    let pid = run.child().id().cast_signed();
    // Blocked, a signal would be heard though it is ignored.
    assert_eq!((among_them(pid, "SigIgn"), among_them(pid, "SigBlk")), (0b111, 1 << 14));
    for ignored in [Signal::INT, Signal::HUP] {
        signal(pid, ignored);
    }
    signal(pid, Signal::TERM);
    assert!(run.rest().is_empty());
    machine.untouched();
}
