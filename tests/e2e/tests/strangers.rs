//! Somebody else's process in a node's network namespace: who it is is told, and the rest goes.

use netloom_tests_e2e::{machine, root_only, wait_until};

const BOUND: std::time::Duration = std::time::Duration::from_secs(30);

/// A process that goes with this value.
struct Stranger(std::process::Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_strangers_process_is_named_by_down() {
    root_only!("enters a node's network from outside");
    let machine = machine!();
    machine.up("name: visited\nnodes: {a: {}, b: {}}\nlinks: [[a, b]]\n");
    let space = format!("/proc/{}/ns/net", machine.init("a"));
    let wanted = std::fs::read_link(&space).expect("a namespace");
    let mut nsenter = std::process::Command::new("nsenter");
    nsenter.arg(format!("--net={space}")).args(["sleep", "1000"]);
    let stranger = Stranger(nsenter.spawn().expect("start nsenter"));
    let pid = stranger.0.id();
    let there = || std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    wait_until("it is there", BOUND, || (there().as_ref() == Some(&wanted)).then_some(()));
    machine.netloom(["down"]).finish().code(1).says(&format!("process {pid} ("));
    drop(stranger);
    machine.netloom(["down"]).finish().code(0);
    machine.untouched();
}
