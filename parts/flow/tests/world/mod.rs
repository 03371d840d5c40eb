//! A switch in a process of its own, nodes on its ports, and controllers made by hand.
//!
//! The switch's ends of the links are in the network namespace of the test, which is a fresh one.

#![allow(dead_code, unreachable_pub, reason = "each user uses a part")]

mod net;
mod peer;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use netloom_flow::Application;
use netloom_flow::application::{Controller, Fail};
use netloom_flow::control::requests::Shown;
use netloom_flow::control::{Connection, PortSpec};

#[allow(unused_imports, reason = "as above")]
pub use net::{Net, Node, frame, raise_lo};
#[allow(unused_imports, reason = "as above")]
pub use peer::{Listening, Peer};

/// Longest that anything is waited for.
pub const BOUND: Duration = Duration::from_secs(60);

/// Waits for something.
pub fn wait<T>(what: &str, cond: impl FnMut() -> Option<T>) -> T {
    netloom_kit::wait_until(what, BOUND, cond)
}

/// A switch's process, its folder, and what it was told.
pub struct Switch {
    process: Option<Child>,
    /// Kept, so that it can say its last words.
    output: Option<BufReader<ChildStdout>>,
    pub folder: tempfile::TempDir,
    pub application: Application,
}

impl Switch {
    /// One that is told nothing.
    pub fn start() -> Switch {
        Switch::with(|_| {})
    }

    /// One in fail-secure mode.
    pub fn secure() -> Switch {
        Switch::with(|application| application.fail = Fail::Secure)
    }

    /// One that is told something.
    pub fn with(tell: impl FnOnce(&mut Application)) -> Switch {
        let folder = tempfile::tempdir().expect("a folder");
        let mut application = Application::new("s1", 0x1122, folder.path());
        tell(&mut application);
        let mut switch = Switch { process: None, output: None, folder, application };
        switch.run();
        switch
    }

    /// Starts its process, and waits until it serves.
    pub fn run(&mut self) {
        let told = serde_json::to_string(&self.application).expect("JSON");
        let mut command = super::process::command(self.folder.path(), &told);
        command.stdout(Stdio::piped());
        // libtest has more threads than the one that serves: none may take the signals of a switch.
        let start = move || {
            netloom_sys::process::block_signals();
            command.spawn().expect("start a switch")
        };
        let mut child = std::thread::spawn(start).join().expect("a started switch");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            let length = output.read_line(&mut line).expect("read");
            assert!(length > 0, "it ended: {:?}", child.wait());
        }
        (self.process, self.output) = (Some(child), Some(output));
        // It answers once it has begun.
        self.show();
    }

    /// Kills its process, as a crash would.
    pub fn kill(&mut self) {
        let mut child = self.process.take().expect("a process");
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    /// Waits until its process has ended by itself.
    pub fn ended(&mut self) -> bool {
        self.process.take().expect("a process").wait().expect("wait").success()
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("a process").id()
    }

    pub fn control(&self) -> Connection {
        let path = self.folder.path().join("control");
        Connection::open(&path).expect("connect").expect("a switch").within(BOUND)
    }

    pub fn show(&self) -> Shown {
        self.control().show().expect("its state")
    }

    /// Where it speaks OpenFlow.
    pub fn openflow(&self) -> PathBuf {
        self.application.openflow.clone()
    }

    /// A connection that speaks OpenFlow 1.3 with it.
    pub fn peer(&self) -> Peer {
        Peer::unix(&self.openflow())
    }

    /// Adds a port of this number for a node.
    pub fn add(&self, number: u32, node: &Node) {
        let port = PortSpec {
            number,
            name: format!("port{number}"),
            interface: node.outer.clone(),
            mac: None,
        };
        self.control().add_port(port).expect("add a port");
    }

    /// As many nodes on ports from 1 on.
    pub fn nodes<const N: usize>(&self) -> [Node; N] {
        let nodes = std::array::from_fn(|n| Node::new(u8::try_from(n + 1).expect("few")));
        for (number, node) in (1..).zip(&nodes) {
            self.add(number, node);
        }
        wait("all ports are up", || {
            let ports = self.show().ports;
            (ports.len() >= N && ports.iter().all(|port| port.up)).then_some(())
        });
        nodes
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A controller from its text.
pub fn controller(target: &str) -> Controller {
    Controller { target: target.parse().expect("a target"), namespace: None }
}

/// The folder of a path.
pub fn parent(path: &Path) -> &Path {
    path.parent().expect("a folder")
}
