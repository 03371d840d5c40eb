//! Virtual machines beside nodes: reached, entered, paused, killed, adopted, refused. Guests are real: User-mode Linux.

use std::time::Duration;

use netloom_tests_e2e::capturing::Capturing;
use netloom_tests_e2e::live::{Held, gone, kill_and_wait};
use netloom_tests_e2e::{
    Machine, machine, needs, signal, wait_until, with_command_line, workspace_root,
};
use rustix::process::Signal;
use serde_json::Value;

/// A boot on a busy machine, and the ends of everything after it.
const BOUND: Duration = Duration::from_secs(180);

/// A node and a guest with these keys more.
fn lab(more: &str) -> String {
    format!("nodes:\n  h:\n  g: {{kind: vm, accel: uml, memory: 64MiB, {more}}}\nlinks: [[h, g]]\n")
}

fn up(machine: &Machine, text: &str) {
    let file = machine.file(text);
    machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish().code(0);
}

/// The processes of User-mode Linux in the guest's node, the first of them first.
fn kernels(machine: &Machine) -> Vec<i32> {
    let is_kernel = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"/usr/bin/linux.uml")
    };
    netloom_tests_e2e::descendants(machine.init("g")).into_iter().filter(is_kernel).collect()
}

#[test]
fn the_example_serves_a_page() {
    needs!("linux.uml", "busybox");
    let machine = machine!();
    let file = workspace_root().join("examples/vm.yaml");
    machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish().code(0);
    let page = machine.exec("h1", &["curl", "-fsS", "http://guest/"]).ok();
    assert_eq!(page, "made by a kernel of its own\n");
    machine.all_reach_all();
    // Names resolve in it, its addresses and its kernel are its own, and its file is not the node's.
    let words = machine.exec("guest", &["sh", "-c", "getent hosts h2; uname -r; ip -br addr"]).ok();
    let release = machine.exec("h1", &["uname", "-r"]).ok();
    assert!(words.contains("h2") && !words.contains(release.trim()), "{words}");
    let address = machine.node("guest")["addresses"][0].as_str().expect("an address").to_owned();
    assert!(words.contains(&address), "{words}");
    // The node around it has the interface, without an address.
    let around = machine.netloom(["exec", "--no-root", "guest", "--", "ip", "-br", "addr"]).ok();
    assert!(around.contains("eth0") && !around.contains(&address), "{around}");
    machine.down();
}

#[test]
fn a_guest_is_entered_by_its_agent_and_its_console() {
    needs!("linux.uml");
    let machine = machine!();
    up(&machine, &lab("env: {COLOUR: red}"));
    let run = machine.exec("g", &["sh", "-c", "cat; echo $COLOUR >&2; exit 7"]);
    let done = run.input("typed").finish().code(7);
    assert_eq!((done.text().as_str(), done.errors().as_str()), ("typed", "red\n"));
    machine.exec("g", &["nothing-like-it"]).finish().code(127);
    let from = machine.scratch().path().join("given");
    std::fs::write(&from, "x".repeat(100_000)).expect("write");
    machine.netloom(["cp", from.to_str().expect("text"), "g:/tmp/"]).finish().code(0);
    let back = machine.scratch().path().join("back");
    machine.netloom(["cp", "g:/tmp/given", back.to_str().expect("text")]).finish().code(0);
    assert_eq!(std::fs::read(&back).expect("read"), std::fs::read(&from).expect("read"));
    // More than every buffer on the way holds, both ways at once; nobody waits for a program that does not read.
    let much = "0123456789".repeat(40_000);
    let echoed = machine.exec("g", &["cat"]).input(much.as_str()).bound(BOUND).finish().code(0);
    assert!(echoed.text() == much, "{} of {} bytes", echoed.text().len(), much.len());
    machine.exec("g", &["sh", "-c", "exec <&-; exit 5"]).input(much).finish().code(5);
    // The console shows what is typed, and the log shows the console.
    let shell = machine.netloom(["shell", "g"]).input("echo $((6*7)) times; kill -INT 1\n");
    let shown = shell.bound(BOUND).finish().text();
    assert!(shown.contains("42 times"), "{shown}");
    assert!(machine.netloom(["logs", "g"]).ok().contains("42 times"));
    machine.down();
}

#[test]
fn a_paused_guest_is_silent_until_it_is_resumed() {
    needs!("linux.uml");
    let machine = machine!();
    up(&machine, &lab(""));
    let ping = |seconds: &str| machine.exec("h", &["ping", "-c", "1", "-W", seconds, "g"]).finish();
    assert_eq!(ping("30").status.code(), Some(0));
    machine.ok("node pause g");
    assert_eq!(ping("1").status.code(), Some(1));
    machine.ok("node resume g");
    assert_eq!(ping("30").status.code(), Some(0));
    machine.refused("node pause h", 2, &["not a virtual machine"]);
    machine.down();
}

#[test]
fn a_killed_machine_is_started_again_and_leaves_nothing() {
    needs!("linux.uml");
    let machine = machine!();
    up(&machine, &lab("restart: on-failure"));
    let first = kernels(&machine);
    assert!(!first.is_empty());
    // Its kernel first; its process the second time: the kernel ends with that.
    netloom_tests_e2e::kill(first[0]);
    let lives = |old: &[i32]| {
        wait_until("the machine lives again", BOUND, || {
            let answers = machine.exec("g", &["true"]).finish().status.code() == Some(0);
            (answers && old.iter().all(|pid| gone(*pid))).then_some(())
        });
    };
    lives(&first);
    let second = kernels(&machine);
    let ours = netloom_tests_e2e::descendants(machine.init("g"));
    let processes = with_command_line("vm-process");
    kill_and_wait(*processes.iter().find(|pid| ours.contains(pid)).expect("its process"));
    lives(&second);
    machine.down();
}

#[test]
fn a_guest_outlives_its_lab_process() {
    needs!("linux.uml");
    let machine = machine!();
    let text = lab("");
    up(&machine, &text);
    machine.exec("g", &["touch", "/tmp/mark"]).ok();
    kill_and_wait(machine.lab_process());
    up(&machine, &text);
    machine.exec("g", &["test", "-e", "/tmp/mark"]).ok();
    machine.down();
}

#[test]
fn a_guest_that_is_not_ready_in_time_is_told_with_its_console() {
    needs!("linux.uml");
    let machine = machine!();
    let text = lab("run: [[sh, -c, \"echo I am late; sleep 99\"]], ready: {tcp: 81, timeout: 30s}");
    let file = machine.file(&text);
    let failed = machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish().code(1);
    for part in ["node \"g\": not ready in time: no program listens on TCP port 81", "I am late"] {
        assert!(failed.errors().contains(part), "{}", failed.errors());
    }
    machine.untouched();
}

/// Pings h from the guest, and waits for all answers.
fn ping_from_guest(machine: &Machine, count: &str) -> String {
    machine.exec("g", &["ping", "-4", "-c", count, "-i", "0.05", "-W", "30", "h"]).bound(BOUND).ok()
}

#[test]
fn a_guest_is_captured_and_its_link_is_slow() {
    needs!("linux.uml", "libpcap");
    let machine = machine!();
    up(&machine, &lab("").replace("[[h, g]]", "[{ends: [h, g], delay: 20ms}]"));
    let words = ping_from_guest(&machine, "3");
    let took = words.split("time=").skip(1).map(|rest| rest.split_once(' ').expect("a time").0);
    let took: Vec<f64> = took.map(|time| time.parse().expect("a number")).collect();
    // None is there twice, and each has been delayed both ways.
    assert!(took.len() == 3 && took.iter().all(|took| *took >= 40.0), "{words}");
    let capture = Capturing::start(&machine, "g:eth0 -f icmp", "g.pcapng");
    ping_from_guest(&machine, "5");
    // What the guest sends, and what it gets.
    assert_eq!(capture.stop().total("written"), 10);
    machine.down();
}

#[test]
fn a_way_to_a_guest_is_measured() {
    needs!("linux.uml");
    netloom_tests_e2e::root_only!("loads BPF programs");
    let machine = machine!();
    let routed = "[h, r]\n  - [r, g]";
    let text = lab("").replace("links: [[h, g]]", &format!("links:\n  - {routed}"));
    up(&machine, &text.replace("  h:\n", "  h:\n  r: {forwarding: true}\n"));
    machine.answers("h", "g");
    let mut measure = Held::start(machine.netloom("measure h g -4 --json".split(' ')));
    let head: Value = serde_json::from_str(&measure.line()).expect("JSON");
    let points = |way: &Value| -> Vec<String> {
        let all = way["points"].as_array().expect("points").iter();
        all.filter_map(|point| point["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(points(&head["ways"][0]), ["h:eth0", "r:eth0", "r:eth1", "g:eth0"]);
    assert_eq!(points(&head["ways"][1]), ["g:eth0", "r:eth1", "r:eth0", "h:eth0"]);
    ping_from_guest(&machine, "20");
    signal(measure.pid(), Signal::INT);
    let text = measure.rest();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let totals: Vec<Value> = all.filter(|line| line["type"] == "total").collect();
    assert_eq!(totals.len(), 2, "{text}");
    for way in totals {
        assert_eq!((&way["way"]["sent"], &way["way"]["lost"]), (&20.into(), &0.into()), "{text}");
    }
    machine.down();
}

#[test]
fn two_labs_share_files_and_no_names() {
    needs!("linux.uml");
    let machine = machine!();
    for name in ["one", "two"] {
        up(&machine, &format!("name: {name}\n{}", lab("files: {/etc/which: same}")));
    }
    for name in ["one", "two"] {
        let words = format!("echo {name} > /etc/own; cat /etc/which /etc/own");
        let told = machine.netloom(["-l", name, "exec", "g", "--", "sh", "-c", &words]).ok();
        assert_eq!(told, format!("same{name}\n"));
    }
    machine.netloom(["down", "--all"]).bound(BOUND).finish().code(0);
    machine.down();
}

#[test]
fn a_machine_whose_program_is_missing_is_refused_with_what_to_install() {
    let machine = machine!();
    let file = machine.file(&lab("kernel: nowhere/linux"));
    let refused = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(3);
    for part in ["nowhere/linux is not there", "apt-get install user-mode-linux"] {
        assert!(refused.errors().contains(part), "{}", refused.errors());
    }
    machine.untouched();
}

#[test]
fn a_file_that_is_missing_is_named_before_anything_is_made() {
    needs!("qemu-system-x86_64");
    let machine = machine!();
    let file = machine.file("nodes: {g: {kind: vm, kernel: nowhere/vmlinuz}}");
    let refused = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    for part in ["node \"g\": kernel: ", "nowhere/vmlinuz: no such file or directory"] {
        assert!(refused.errors().to_lowercase().contains(part), "{}", refused.errors());
    }
    machine.untouched();
}
