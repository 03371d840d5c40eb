//! `exec` and `shell`: codes, signals, pipes, terminals, and the death of the caller.

use std::time::Duration;

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{
    Machine, Terminal, kill, machine, pair, signal, wait_until, with_command_line,
};
use rustix::process::Signal;

#[test]
fn exit_codes_and_signals_are_kept() {
    let machine = machine!();
    machine.up(&pair(""));
    for code in [0, 1, 7, 255] {
        machine.exec("a", &["sh", "-c", &format!("exit {code}")]).finish().code(code);
    }
    machine.exec("a", &["sh", "-c", "kill -TERM $$"]).finish().code(128 + 15);
    machine.exec("a", &["sh", "-c", "kill -KILL $$"]).finish().code(128 + 9);
    machine.exec("a", &["no-such-command-anywhere"]).finish().code(127).says("no-such-command");
    machine.exec("a", &["/etc/passwd"]).finish().code(126).says("/etc/passwd");
    machine.down();
}

#[test]
fn a_command_in_one_word_is_told_apart() {
    let machine = machine!();
    machine.up(&pair(""));
    let refused = machine.exec("a", &["ping -c1 b"]).finish().code(127);
    refused
        .says("ping -c1 b: ")
        .says("write ping and its arguments as words of their own, or sh -c");
    machine.down();
}

#[test]
fn streams_are_the_callers_own() {
    let machine = machine!();
    machine.up(&pair(""));
    let done = machine.exec("a", &["sh", "-c", "echo out; echo err >&2"]).finish().code(0);
    assert_eq!((done.text().as_str(), done.errors().as_str()), ("out\n", "err\n"));
    let bytes: Vec<u8> = (0..10_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let done = machine.exec("a", &["cat"]).input(bytes.clone()).finish().code(0);
    assert!(done.stdout == bytes, "10 MB went in, {} other bytes came out", done.stdout.len());
    machine.down();
}

#[test]
fn a_node_has_its_own_name_processes_and_network() {
    let machine = machine!();
    machine.up(&pair(""));
    assert_eq!(machine.exec("a", &["hostname"]).ok(), "a\n");
    let pids = machine.exec("a", &["sh", "-c", "ls -d /proc/[0-9]* | wc -l"]).ok();
    assert!(pids.trim().parse::<u32>().unwrap() < 10, "sees {pids} processes");
    let links = machine.exec("a", &["ls", "/sys/class/net"]).ok();
    assert_eq!(links.split_whitespace().collect::<Vec<_>>(), ["eth0", "lo"]);
    ["-4", "-6"].iter().for_each(|family| machine.answers_by(family, "a", "b"));
    machine.down();
}

#[test]
fn what_a_node_writes_is_its_own() {
    let machine = machine!();
    machine.up(&pair("files: {/srv/note: mine}"));
    let name = format!("/tmp/netloom-note-{}", std::process::id());
    machine.exec("a", &["sh", "-c", &format!("echo x > {name}")]).ok();
    machine.exec("a", &["test", "-e", &name]).finish().code(0);
    machine.exec("b", &["test", "-e", &name]).finish().code(1);
    assert!(!std::path::Path::new(&name).exists());
    assert_eq!(machine.exec("a", &["cat", "/srv/note"]).ok(), "mine");
    machine.exec("b", &["test", "-e", "/srv/note"]).finish().code(1);
    machine.down();
}

fn terminal(machine: &Machine, args: &[&str]) -> Terminal {
    let netloom = netloom_kit::Binary::find();
    let dir = machine.scratch().runtime_dir();
    Terminal::start(netloom.path(), args, &[("NETLOOM_RUNTIME_DIR", &dir)])
}

#[test]
fn a_terminal_stays_one() {
    let machine = machine!();
    machine.up(&pair(""));
    let script = "test -t 0 && stty size && read x && echo got:$x";
    let mut shown = terminal(&machine, &["exec", "a", "--", "sh", "-c", script]);
    shown.expect("24 80");
    shown.type_text("hello\n");
    shown.expect("got:hello");
    assert!(shown.finish().success());
    let script = "echo ready; exec tail -f /dev/null";
    let mut shown = terminal(&machine, &["exec", "a", "--", "sh", "-c", script]);
    shown.expect("ready");
    shown.type_text("\x03");
    let code = shown.finish();
    assert!(!code.success(), "{code}");
    machine.down();
}

#[test]
fn a_shell_is_inside_the_node() {
    let machine = machine!();
    machine.up(&pair(""));
    let mut shown = terminal(&machine, &["shell", "a"]);
    shown.type_text("echo name=$(hostname); exit 5\n");
    shown.expect("name=a");
    assert_eq!(shown.finish().code(), Some(5));
    machine.down();
}

#[test]
fn a_shell_in_a_child_has_a_terminal_of_the_childs() {
    let machine = machine!();
    machine.up("nodes: {p: {children: {nodes: {c: {}}}}}\n");
    let binary = netloom_kit::Binary::find();
    let binary = binary.path().to_str().expect("a path");
    let mut shown = terminal(&machine, &["exec", "p", "--", binary, "shell", "c"]);
    shown.type_text("echo name=$(hostname) $(tty)\n");
    shown.expect("name=c /dev/pts/0");
    // Its keys are those of the program: the shell lives on.
    shown.type_text("sh -c \"echo be''gun; exec tail -f /dev/null\"\n");
    shown.expect("begun");
    shown.type_text("\x03");
    shown.type_text("echo code=$?\n");
    shown.expect("code=130");
    shown.type_text("exit 5\n");
    assert_eq!(shown.finish().code(), Some(5));
    machine.down();
}

#[test]
fn a_killed_caller_ends_its_work() {
    let machine = machine!();
    machine.up(&pair(""));
    let mark = format!("86400.{}", std::process::id());
    let line = format!("sleep {mark}");
    let caller = machine.exec("a", &["sh", "-c", &format!("{line}; true")]).spawn();
    let bound = Duration::from_secs(60);
    let sleeps = || with_command_line(&line).into_iter().find(|pid| comm(*pid) == "sleep");
    wait_until("the work has begun", bound, sleeps);
    kill(caller.id().cast_signed());
    wait_until("the work has ended", bound, || with_command_line(&line).is_empty().then_some(()));
    let mut caller = caller;
    caller.wait().expect("reap caller");
    machine.down();
}

#[test]
fn an_interrupt_by_a_process_reaches_the_program() {
    let machine = machine!();
    machine.up(&pair(""));
    for (command, code) in
        [("echo begun; exec sleep 86400", 130), ("trap 'exit 7' INT; echo begun; read line", 7)]
    {
        let mut caller = Held::start(machine.exec("a", &["sh", "-c", command]));
        assert_eq!(caller.line(), "begun");
        signal(caller.pid(), Signal::INT);
        let ended = wait_until("its end", SOON, || caller.child().try_wait().expect("look at it"));
        assert_eq!(ended.code(), Some(code), "{command}");
    }
    machine.down();
}

fn comm(pid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    text.trim().to_owned()
}

#[test]
fn an_unknown_node_is_named() {
    let machine = machine!();
    machine.up(&pair(""));
    let done = machine.exec("nobody", &["true"]).finish().says("nobody");
    assert!(matches!(done.status.code(), Some(1 | 2)), "{done}");
    machine.down();
}
