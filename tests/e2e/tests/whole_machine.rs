//! A lab leaves the whole machine as it was, not only objects known to be the lab's.
//!
//! The machine is the test's own: in namespaces where nobody else can be at work, any difference is the lab's.

use std::time::Duration;

use netloom_tests_e2e::{Machine, Run, Snapshot, workspace_root};

/// A wait that is long enough on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// Nodes with programs, a bridge, a switch in shared memory, a wire; as root guards, too.
fn lab() -> String {
    let guards =
        if is_machines_root() { "limits: {sockets: 50}, protect: {packets: 100k/s}" } else { "" };
    format!(
        "name: whole\nnodes:\n  a: {{{guards}}}\n  b: {{run: [[tail, -f, /dev/null]]}}\n  c: {{}}\n\
         switches: {{s: {{}}, m: {{kind: shm}}}}\n\
         links: [[a, s], [b, s], [a, m], [c, m], {{ends: [b, c], delay: 1ms}}]\n"
    )
}

/// Whether this is the machine's root, and not an ordinary user that is root in its own namespace.
fn is_machines_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").expect("read the map of users");
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A run of the binary, by an ordinary user again where it is one who has these namespaces.
fn netloom(machine: &Machine, words: &[&str]) -> Run {
    if is_machines_root() {
        return machine.netloom(words);
    }
    Run::new("unshare")
        .args(["--user", "--map-user=1000", "--map-group=1000"])
        .args([netloom_kit::Binary::find().path()])
        .args(words)
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
        .env("NETLOOM_DATA_DIR", machine.scratch().path().join("data"))
        .dir(machine.scratch().path())
}

/// Other labs of this machine have groups in the same tree.
fn is_ours(line: &str) -> bool {
    !line.contains(" cgroup ")
}

/// Each kind of thing that a lab could leave is seen, or the other test could not fail.
#[test]
fn what_a_lab_left_would_be_seen() {
    netloom_kit::isolated!({
        let machine = Machine::new();
        let runtime = machine.scratch().runtime_dir();
        let before = Snapshot::whole(&runtime);
        assert_eq!(before.lines_that_stay(is_ours), "");
        std::fs::create_dir(runtime.join("left")).expect("make a folder");
        Run::new("ip").args(["link", "add", "left0", "type", "bridge"]).finish().code(0);
        let at = runtime.join("left").display().to_string();
        Run::new("mount").args(["-t", "tmpfs", "-o", "mode=0755", "none", &at]).finish().code(0);
        let mut left = std::process::Command::new("unshare")
            .args(["--net", "sleep", "1000"])
            .env("NETLOOM_RUNTIME_DIR", &runtime)
            .spawn()
            .expect("start it");
        // It enters the network as `unshare` and becomes `sleep` after.
        netloom_tests_e2e::wait_until("it sleeps in a network of its own", LONG, || {
            let difference = before.difference(&before.again());
            let seen = ["+ netns ", "+ process sleep"].map(|thing| difference.contains(thing));
            (seen == [true; 2]).then_some(())
        });
        let told = before.difference(&before.again());
        let link = "+ link left0\n".to_owned();
        for thing in [link, format!("+ file {at}\n"), "+ process sleep".into(), "+ mount ".into()] {
            assert!(told.contains(&thing), "{thing}: {told}");
        }
        left.kill().and_then(|()| left.wait()).expect("end it");
        Run::new("umount").args([&at]).finish().code(0);
        Run::new("ip").args(["link", "del", "left0"]).finish().code(0);
        std::fs::remove_dir(&at).expect("remove it");
        assert_eq!(before.lines_that_stay(is_ours), "");
    });
}

#[test]
fn a_lab_leaves_the_machine_as_it_was() {
    netloom_kit::isolated!({
        let machine = Machine::new();
        let before = Snapshot::whole(&machine.scratch().runtime_dir());
        let example = workspace_root().join("examples/two-sites.yaml");
        for file in [example, machine.file(&lab())] {
            netloom(&machine, &["up", file.to_str().expect("UTF-8")]).finish().code(0);
        }
        let difference = before.difference(&before.again());
        assert!(difference.contains("+ process"), "{difference}");
        netloom(&machine, &["down", "--all"]).finish().code(0);
        assert_eq!(before.lines_that_stay(is_ours), "");
        machine.untouched();
    });
}
