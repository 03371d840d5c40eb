//! A stranger's process in a node's network namespace: `down` names it, and all else goes.

use std::process::{Child, Command, Stdio};

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, is_root, machine, wait_until};

const LAB: &str =
    "name: visited\nnodes: {a: {}, b: {children: {nodes: {c: {}}}}}\nlinks: [[a, b]]\n";

/// A process that goes with this value.
struct Stranger(Child);

impl Stranger {
    /// One in the network of the init's node.
    fn enter(init: i32) -> Stranger {
        let mut nsenter = Command::new("nsenter");
        nsenter.arg(format!("--target={init}")).arg("--net");
        if !is_root() {
            nsenter.args(["--user", "--preserve-credentials"]);
        }
        let stranger =
            Stranger(nsenter.args(["sleep", "1000"]).stdin(Stdio::null()).spawn().unwrap());
        let wanted = std::fs::read_link(format!("/proc/{init}/ns/net")).expect("a namespace");
        let pid = stranger.0.id();
        wait_until("it is there", SOON, || {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let there = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
            (there == wanted && comm == "sleep\n").then_some(())
        });
        stranger
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes the lab down: who stays is named, and nothing else does.
fn down_names(machine: &Machine, stranger: &Stranger) {
    let named = format!("process {} (sleep)", stranger.0.id());
    let down = machine.netloom(["down", "visited"]).finish().code(1);
    assert!(down.errors().contains(&named), "{down}");
    assert_eq!(machine.netloom(["ls", "--json"]).finish().code(0).json(), serde_json::json!([]));
    netloom_tests_e2e::assert_same(machine.before());
}

#[test]
fn a_process_that_keeps_a_nodes_network_is_named() {
    let machine = machine!();
    machine.up(LAB);
    let stranger = Stranger::enter(machine.init("b/c"));
    down_names(&machine, &stranger);
    drop(stranger);
    // One whose lab process was killed, and a lab of the same name made meanwhile.
    machine.up(LAB);
    let stranger = Stranger::enter(machine.init("a"));
    kill_and_wait(machine.lab_process());
    down_names(&machine, &stranger);
    machine.up(LAB);
    machine.answers("a", "b");
    machine.ok("ping a b");
    machine.ok("down");
    // A program of the node's own that has no node's network ends with it, and is not told of.
    machine.up(LAB);
    let own = ["sh", "-c", "(unshare --net sleep 1000 & sleep 1000 &) >/dev/null 2>&1 </dev/null"];
    machine.exec("a", &own).finish().code(0);
    machine.ok("down");
    machine.untouched();
}
