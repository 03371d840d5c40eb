//! `cp`: files and directories into and out of a node.

use std::path::PathBuf;
use std::time::Duration;

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, machine, pair, signal, wait_until};
use rustix::process::Signal;

#[test]
fn files_and_directories_go_both_ways() {
    let machine = machine!();
    machine.up(&pair(""));
    let dir = machine.scratch().path().to_owned();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    machine.scratch().file("one", &bytes);
    std::fs::create_dir_all(dir.join("tree/below")).unwrap();
    std::fs::write(dir.join("tree/below/two"), "two").unwrap();
    machine.netloom(["cp", "one", "a:/tmp/one"]).ok();
    machine.netloom(["cp", "tree", "a:/tmp/tree"]).ok();
    assert_eq!(machine.exec("a", &["cat", "/tmp/tree/below/two"]).ok(), "two");
    machine.netloom(["cp", "a:/tmp/one", "back"]).ok();
    machine.netloom(["cp", "a:/tmp/tree", "tree-back"]).ok();
    assert!(std::fs::read(dir.join("back")).unwrap() == bytes, "the file came back changed");
    assert_eq!(std::fs::read_to_string(dir.join("tree-back/below/two")).unwrap(), "two");
    machine.down();
}

#[test]
fn a_file_goes_to_standard_output() {
    let machine = machine!();
    machine.up(&pair(""));
    let dir = machine.scratch().path().to_owned();
    let hosts = machine.exec("a", &["cat", "/etc/hosts"]).ok();
    assert_eq!(machine.netloom(["cp", "a:/etc/hosts", "-"]).ok(), hosts);
    assert!(!dir.join("-").exists());
    machine.netloom(["cp", "a:/etc/hosts", "./-"]).ok();
    assert_eq!(std::fs::read_to_string(dir.join("-")).expect("a file"), hosts);
    // Nothing else has a place there, and nobody waits for a FIFO's writer.
    machine.exec("a", &["mkfifo", "/tmp/fifo"]).ok();
    for other in ["a:/etc", "a:/tmp/fifo", "a:/dev/zero"] {
        let refused = machine.netloom(["cp", other, "-"]).finish().code(1);
        refused.says("only a regular file goes to standard output");
    }
    machine.netloom(["cp", "--max", "1", "a:/etc/hosts", "-"]).finish().code(1).says("--max");
    let words = machine.netloom(["cp", "-", "a:/tmp/x"]).finish().code(2);
    words.says("netloom exec a -- sh -c 'cat > /tmp/x'");
    machine.down();
}

#[test]
fn errors_name_the_object() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.netloom(["cp", "not-there", "a:/tmp/x"]).finish().code(1).says("not-there");
    machine.netloom(["cp", "a:/not-there", "x"]).finish().code(1).says("/not-there");
    machine.scratch().file("one", "1");
    let done = machine.netloom(["cp", "one", "zed:/tmp/x"]).finish().says("zed");
    assert_ne!(done.status.code(), Some(0));
    machine.netloom(["cp", "one", "two"]).finish().code(2);
    machine.down();
}

/// Begins to copy many files out of a node, and waits until some have come.
fn begin(machine: &Machine) -> (Held, PathBuf) {
    let node = machine.inits().into_iter().find(|(name, _)| name == "a").expect("a node").1;
    let many = PathBuf::from(format!("/proc/{node}/root/tmp/many"));
    std::fs::create_dir_all(&many).expect("make a folder");
    for number in 0..40_000 {
        std::fs::write(many.join(number.to_string()), "").expect("write a file");
    }
    let copying = Held::start(machine.netloom(["cp", "a:/tmp/many", "many"]));
    let left = wait_until("the copy begins", Duration::from_secs(60), || {
        let holder = holders(machine).pop()?;
        std::fs::read_dir(&holder).ok()?.next().map(|_| holder)
    });
    (copying, left)
}

/// Sends a signal to a copy that has begun, and waits for its end; what it has made so far. A copy that was over before that is
/// begun again.
fn signalled(machine: &Machine, by: Signal) -> (Option<i32>, PathBuf) {
    wait_until("a signal meets the copy", SOON, || {
        let (mut copying, left) = begin(machine);
        signal(copying.pid(), by);
        let status = copying.child().wait().expect("wait for the copy");
        let over = status.success();
        if over {
            std::fs::remove_dir_all(machine.scratch().path().join("many")).expect("remove it");
        }
        (!over).then(|| (status.code(), left))
    })
}

fn holders(machine: &Machine) -> Vec<PathBuf> {
    let all = std::fs::read_dir(machine.scratch().path()).expect("list the folder").flatten();
    let all = all.map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().contains("/.netloom-cp-")).collect()
}

#[test]
fn a_copy_that_a_signal_ends_leaves_nothing() {
    let machine = machine!();
    machine.up(&pair(""));
    for (by, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        assert_eq!(signalled(&machine, by).0, Some(code));
        assert_eq!(holders(&machine), [] as [PathBuf; 0]);
        assert!(!machine.scratch().path().join("many").exists());
    }
    machine.down();
}

#[test]
fn what_a_killed_copy_leaves_goes_with_the_next() {
    let machine = machine!();
    machine.up(&pair(""));
    let (_, left) = signalled(&machine, Signal::KILL);
    assert!(left.exists());
    machine.netloom(["cp", "a:/proc/version", "version"]).ok();
    assert_eq!(holders(&machine), [] as [PathBuf; 0]);
    machine.down();
}

/// A terabyte of holes is none on the host, and a file of data no more than is allowed.
#[test]
fn a_node_does_not_fill_the_hosts_disk() {
    let machine = machine!();
    machine.up(&pair(""));
    let make = "truncate -s 1T /tmp/holes; head -c 3000000 /dev/zero | tr '\\000' x > /tmp/data";
    machine.exec("a", &["sh", "-c", make]).ok();
    machine.netloom(["cp", "--max", "1MiB", "a:/tmp/holes", "holes"]).ok();
    let found = std::fs::metadata(machine.scratch().path().join("holes")).expect("the copy");
    assert_eq!(found.len(), 1 << 40);
    let refused = machine.netloom(["cp", "--max", "1MiB", "a:/tmp/data", "data"]).finish().code(1);
    let words = "/tmp/data: copy: its 3000000 bytes are more than --max leaves, which are 1048576";
    refused.says(words);
    assert!(!machine.scratch().path().join("data").exists());
    machine.down();
}
