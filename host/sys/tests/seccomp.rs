//! Notified calls of a shell: answered, read, and refused when nobody listens.

use netloom_kit::needs;
use netloom_sys::seccomp::launch::{Launched, Place, launch};
use netloom_sys::seccomp::{Answer, Call, Caller, Filter, Listener, Machine, Outcome, Rule};
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How the shell makes descriptor 8 of descriptor 7.
#[cfg(target_arch = "x86_64")]
const DUPLICATE: libc::c_long = libc::SYS_dup2;
#[cfg(not(target_arch = "x86_64"))]
const DUPLICATE: libc::c_long = libc::SYS_dup3;

/// A rule that asks about every call of this number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
const fn all(number: libc::c_long) -> Rule {
    Rule { number: number as u32, clauses: &[], otherwise: Answer::Notify }
}

fn shell(script: &str, rules: &[Rule], own_user: bool) -> Launched {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let place = Place { own_user, ..Place::default() };
    launch(command, Filter::compile(&[(Machine::OWN, rules)]), place).unwrap()
}

/// Answers all calls by `answer` until the shell has ended; gives its output.
fn run(mut launched: Launched, mut answer: impl FnMut(&Listener, &Call) -> Outcome) -> String {
    while let Some(call) = launched.listener.receive().unwrap() {
        let outcome = answer(&launched.listener, &call);
        launched.listener.answer(call.id, outcome).unwrap();
    }
    output(&mut launched)
}

fn output(launched: &mut Launched) -> String {
    launched.child.wait().unwrap();
    let mut text = String::new();
    launched.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    launched.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_call_returns_what_the_listener_answers() {
    let launched = shell("echo $PPID", &[all(libc::SYS_getppid)], false);
    assert_eq!(run(launched, |_, _| Outcome::Value(4242)), "4242\n");
}

#[test]
fn a_call_continues_or_fails_as_told() {
    let script = "cd /usr && pwd; cd /usr/bin || echo refused";
    let mut calls = 0;
    let text = run(shell(script, &[all(libc::SYS_chdir)], false), |_, _| {
        calls += 1;
        if calls == 1 { Outcome::Continue } else { Outcome::Errno(libc::EACCES) }
    });
    assert!(text.starts_with("/usr\nrefused\n"), "{text}");
    assert_eq!(calls, 2);
}

fn memory_and_descriptors(own_user: bool) {
    let script = "cd /usr/share; exec 7</dev/null 8<&7";
    let rules = [all(libc::SYS_chdir), all(DUPLICATE)];
    let (mut path, mut device) = (vec![], false);
    run(shell(script, &rules, own_user), |listener, call| {
        let caller = Caller::of(listener, call).unwrap().unwrap();
        if libc::c_long::from(call.number) == libc::SYS_chdir {
            path = caller.bytes(call.arguments[0], 11).unwrap();
            assert!(caller.bytes(8, 1).is_err(), "nothing is mapped at address 8");
            assert!(caller.bytes(u64::MAX, 1).is_err());
        } else if call.arguments[0] == 7 {
            let fd = caller.descriptor(7).unwrap();
            let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()));
            device = std::fs::read_link(link).unwrap() == std::path::Path::new("/dev/null");
            assert_eq!(caller.descriptor(999).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
        Outcome::Continue
    });
    assert_eq!(String::from_utf8_lossy(&path), "/usr/share\0");
    assert!(device);
}

#[test]
fn memory_and_descriptors_of_the_caller_are_read() {
    memory_and_descriptors(false);
}

#[test]
fn a_user_namespace_of_its_own_hides_nothing_from_the_listener() {
    needs!("userns");
    memory_and_descriptors(true);
}

#[test]
fn without_a_listener_calls_fail() {
    let mut launched = shell("cd /usr || echo refused", &[all(libc::SYS_chdir)], false);
    let other = shell("true", &[], false);
    // The call may be before or after the end of its listener.
    drop(std::mem::replace(&mut launched.listener, other.listener));
    assert!(output(&mut launched).contains("refused\n"));
    let mut child = other.child;
    child.wait().unwrap();
}

#[test]
fn a_killed_call_vanishes() {
    let mut launched = shell("cd /usr", &[all(libc::SYS_chdir)], false);
    let call = launched.listener.receive().unwrap().unwrap();
    assert!(launched.listener.is_waiting(call.id));
    launched.child.kill().unwrap();
    launched.child.wait().unwrap();
    let gone = || (!launched.listener.is_waiting(call.id)).then_some(());
    netloom_kit::wait_until("the program ends with its keeper", Duration::from_secs(30), gone);
    assert!(!launched.listener.answer(call.id, Outcome::Value(0)).unwrap());
    assert_eq!(launched.listener.receive().unwrap(), None);
}

#[test]
fn a_program_that_does_not_exist_is_told() {
    let error = launch(
        Command::new("/nonexistent"),
        Filter::compile(&[(Machine::OWN, &[])]),
        Place::default(),
    );
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::ENOENT));
}

#[test]
#[ignore = "helper: probes with one thread"]
fn probes() {
    let found = netloom_sys::seccomp::probe::supported();
    println!("probed: {found:?}");
}

#[test]
fn a_call_is_rehearsed_from_end_to_end() {
    let output = netloom_kit::again(&probes).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("probed: Ok("), "{text}");
}
