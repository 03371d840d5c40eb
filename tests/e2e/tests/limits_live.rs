//! Limits that are changed while a node runs, seen in what its processes get.

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, machine, needs, needs_cgroups, pair, wait_until};

/// Spins, and answers each line with the share of a CPU it got over the second before: of wall
/// time, after a first tenth in which a quota that was just set comes into force.
const SPINNER: &str = r#"
import sys, time
def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass
for line in sys.stdin:
    spin(0.1)
    wall, cpu = time.monotonic(), time.process_time()
    spin(1)
    print((time.process_time() - cpu) / (time.monotonic() - wall), flush=True)
"#;

/// What a process in the node gets of a CPU over a second.
fn share(spinner: &mut Held) -> f64 {
    use std::io::Write;
    let input = spinner.child().stdin.as_mut().expect("stdin is piped");
    writeln!(input).expect("write to the spinner");
    spinner.line().parse().expect("a number")
}

#[test]
fn a_share_of_the_cpu_changes_under_a_spinning_process() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(&pair(""));
    let mut spinner = Held::start(machine.python("a", SPINNER, &[]));
    for (percent, below) in [(10, 0.2), (40, 0.55), (1, 0.08)] {
        machine.ok(&format!("node set a cpu={percent}%"));
        assert_eq!(machine.node("a")["limits"]["cpu_milli"], percent * 10);
        let got = share(&mut spinner);
        assert!(got < below, "{percent} % of a CPU allowed, {got} used");
    }
    machine.ok("node set a cpu=none");
    // Others may use this machine, but not so much for this long that no more is left than before.
    wait_until("it gets more than it could before", SOON, || {
        (share(&mut spinner) > 0.08).then_some(())
    });
    assert!(machine.node("a")["limits"]["cpu_milli"].is_null());
    drop(spinner);
    machine.down();
}

/// Forks until it cannot, and prints how many there were; ends them all.
const FORKS: &str = r#"
import os, time
made = []
try:
    while len(made) < 100:
        child = os.fork()
        if child == 0: time.sleep(600)
        made.append(child)
except BlockingIOError: pass
print(len(made))
for child in made: os.kill(child, 9)
for child in made: os.waitpid(child, 0)
"#;

fn forks(machine: &Machine) -> u32 {
    machine.python("a", FORKS, &[]).ok().trim().parse().expect("a number")
}

#[test]
fn forks_are_refused_above_the_limit_of_the_moment() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(&pair(""));
    assert_eq!(forks(&machine), 100);
    for limit in [20, 50, 12] {
        machine.ok(&format!("node set a processes={limit}"));
        let made = forks(&machine);
        // Beside them are the init, the one that forks, and what enters the node.
        assert!((limit - 6..limit).contains(&made), "{made} of at most {limit}");
    }
    let out = machine.ok("node set a processes=none");
    assert_eq!(forks(&machine), 100, "{out}");
    machine.down();
}

/// Fills this many MiB, and says so.
const FILL: &str = "import sys\nb = bytearray(int(sys.argv[1]) << 20)\n\
                    for i in range(0, len(b), 4096): b[i] = 1\nprint('filled')";

#[test]
fn memory_is_bounded_from_now_on() {
    needs_cgroups!();
    let machine = machine!();
    machine.up(&pair(""));
    machine.python("a", FILL, &["192"]).finish().code(0);
    machine.ok("node set a memory=96MiB");
    assert_eq!(machine.node("a")["limits"]["memory"], 96 << 20);
    machine.python("a", FILL, &["192"]).finish().code(137);
    machine.python("a", FILL, &["48"]).finish().code(0);
    machine.ok("node set a memory=256MiB");
    machine.python("a", FILL, &["192"]).finish().code(0);
    machine.ok("node set a memory=32MiB");
    machine.python("a", FILL, &["192"]).finish().code(137);
    machine.ok("node set a memory=none");
    assert_eq!(machine.python("a", FILL, &["192"]).ok(), "filled\n");
    assert!(machine.node("a")["limits"]["memory"].is_null());
    // The node has outlived all that was killed in it.
    machine.answers("a", "b");
    machine.down();
}

#[test]
fn nonsense_is_refused_and_changes_nothing() {
    let machine = machine!();
    machine.up(&pair(""));
    let wrong = [
        ("cpu=0%", "cpu"),
        ("cpu=-5%", "cpu"),
        ("cpu=fast", "cpu"),
        ("memory=1", "memory"),
        ("memory=-1MiB", "memory"),
        ("memory=lots", "memory"),
        ("sockets=-1", "sockets"),
        ("sockets=0", "sockets"),
        ("processes=0", "processes"),
        ("processes=1.5", "processes"),
        ("processes=99999999999999999999", "processes"),
        ("weight=0", "weight"),
        ("weight=10001", "weight"),
        ("packets=0/s", "packets"),
        ("packets=some", "packets"),
        ("bytes=-1MB/s", "bytes"),
        ("charge-receive=perhaps", "charge-receive"),
        ("children=-1", "children"),
        ("colour=red", "colour"),
        ("root=/no/such/folder", "root"),
    ];
    let before = machine.node("a")["limits"].clone();
    for (setting, key) in wrong {
        machine.refused(&format!("node set a {setting}"), 2, &["node \"a\"", key]);
        if key == "root" {
            continue;
        }
        // One wrong setting spoils all of them.
        machine.refused(&format!("node set a weight=200 {setting}"), 2, &["node \"a\"", key]);
        machine.refused(&format!("node create fresh {setting}"), 2, &["node \"fresh\"", key]);
    }
    machine.refused("node set a cpu", 2, &["KEY=VALUE"]);
    machine.refused("node set a cpu=10% cpu=20%", 2, &["node \"a\": \"cpu\" is given twice"]);
    machine.refused("node set a", 2, &[]);
    machine.refused("node set nobody cpu=10%", 1, &["nobody"]);
    machine.refused("node set a proceses=5", 2, &["did you mean \"processes\""]);
    assert_eq!(machine.node("a")["limits"], before);
    assert_eq!(machine.nodes(), ["a", "b"]);
    machine.down();
}

#[test]
fn a_root_is_changed_only_when_nobody_is_in_the_node() {
    let machine = machine!();
    machine.up(&pair(""));
    let root = machine.scratch().path().join("root");
    for dir in ["usr", "etc", "tmp"] {
        std::fs::create_dir_all(root.join(dir)).expect("make a root");
    }
    for (link, to) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        std::os::unix::fs::symlink(to, root.join(link)).expect("make a root");
    }
    let set = format!("node set a root={}", root.display());
    let mut held = Held::start(machine.exec("a", &["tail", "-f", "/etc/hosts"]));
    // It is there when it has read something.
    held.line();
    let pid = machine.init("a");
    machine.refused(&set, 1, &["node \"a\"", "tail"]);
    assert_eq!(machine.init("a"), pid);
    drop(held);
    // What entered the node ends a moment after its caller.
    let done = || machine.netloom(set.split(' ')).finish().status.success().then_some(());
    wait_until("nobody is in the node", SOON, done);
    assert_ne!(machine.init("a"), pid);
    let other = machine.exec("a", &["test", "-e", "/etc/passwd"]).finish();
    assert_ne!(other.status.code(), Some(0), "{other}");
    machine.ok("node set a root=none");
    machine.exec("a", &["test", "-e", "/etc/passwd"]).finish().code(0);
    machine.answers("a", "b");
    machine.down();
}

#[test]
fn a_user_without_cgroups_is_refused() {
    needs!("user-without-cgroups");
    let machine = machine!();
    machine.up(&pair(""));
    for setting in ["cpu=10%", "memory=64MiB", "processes=20"] {
        machine.refused(&format!("node set a {setting}"), 3, &[]);
    }
    assert!(machine.node("a")["limits"]["cpu_milli"].is_null());
    machine.down();
}
