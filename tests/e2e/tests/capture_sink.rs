//! `netloom capture --sink`: it is asked for, says what ends, and takes nothing from the node itself.

use netloom_tests_e2e::capturing::Capturing;
use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{machine, root_only, wait_until};

const LAB: &str = "
name: sink
pool: {ipv6: none}
nodes: {a: {}, b: {}, c: {}}
switches: {s: {}, m: {kind: shm}}
links:
  - [a, b]
  - [c, s]
  - [b, m]
";
/// A station that is in no lab.
const STRANGER: &str = "02:00:5e:10:00:01";

#[test]
fn what_passes_and_what_ends_is_said() {
    root_only!("attaches BPF programs");
    let machine = machine!();
    machine.up(LAB);
    for (target, mode, said) in [
        ("b:eth0", "--fast", "every frame passes (--sink ends"),
        ("b:eth0", "--sink", "frames for other stations end here"),
        (
            "b:eth0",
            "--sink --engine xdp-ring --direction in",
            "it was asked for; frames for other stations end here",
        ),
        ("switch:s/c:eth0", "--sink", "a bridge takes them, so they pass"),
    ] {
        let capture = Capturing::start(&machine, &format!("{target} {mode}"), "said.pcapng");
        let account = capture.stop();
        account.closes();
        assert!(account.errors.contains(said), "{target} {mode}: {}", account.errors);
        std::fs::remove_file(machine.scratch().path().join("said.pcapng")).expect("remove");
    }
    machine.down();
}

#[test]
fn the_nodes_own_traffic_passes_a_sink() {
    root_only!("attaches BPF programs");
    let machine = machine!();
    machine.up(LAB);
    let capture = Capturing::start(&machine, "b:eth0 --sink", "own.pcapng");
    let send =
        ["generate", "a:eth0", "--to", "b", "--to-mac", STRANGER, "--rate", "1kpps", "-d", "1h"];
    let strangers = Held::start(machine.netloom(send));
    let file = machine.scratch().path().join("own.pcapng");
    wait_until("frames for others are captured", netloom_tests_e2e::live::SOON, || {
        (file.metadata().expect("the file").len() > 8 << 10).then_some(())
    });
    // Neighbours are asked by broadcast and answer the node itself.
    machine.answers("a", "b");
    drop(strangers);
    capture.stop().closes();
    machine.down();
}

#[test]
fn a_sink_that_cannot_end_frames_is_refused() {
    let machine = machine!();
    machine.up(LAB);
    for (words, code, parts) in [
        ("a:eth0 --sink --engine tpacket", 1, &["a:eth0", "leave out --sink", "tpacket"][..]),
        ("a:eth0 --sink --engine tc-ring", 1, &["a:eth0", "leave out --sink"]),
        ("a:eth0 --sink --direction out", 1, &["a:eth0", "receives"]),
        ("switch:m --sink", 2, &["switch \"m\"", "copies", "leave it out"]),
    ] {
        let done = machine.netloom(["capture"].into_iter().chain(words.split(' '))).finish();
        parts.iter().fold(done.code(code), |done, part| done.says(part));
    }
    machine.down();
}
