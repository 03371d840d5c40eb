//! A lab of three stations on an OpenFlow switch `s`, and a node `c0` where a controller may run.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_flow::control::Connection;
use netloom_flow::control::requests::{ControllerState, Shown};
use netloom_kit::{Run, Scratch, wait_until};

use crate::Running;

/// Longest wait for a controller: on a busy machine Python takes its time.
const PATIENCE: Duration = Duration::from_secs(180);
/// Where `make peers` makes virtual environments.
const ENVIRONMENTS: &str = "/usr/local/lib/netloom-peers";
const LAB: &str = "controlled";

/// The stations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// On port 1.
    A,
    /// On port 2.
    B,
    /// On port 3.
    C,
}

impl At {
    fn node(self) -> &'static str {
        match self {
            At::A => "a",
            At::B => "b",
            At::C => "c",
        }
    }

    fn address(self) -> &'static str {
        match self {
            At::A => "10.99.8.1",
            At::B => "10.99.8.2",
            At::C => "10.99.8.3",
        }
    }
}

/// The lab; the caller takes it down by [`Scratch::guard`].
#[derive(Debug)]
pub struct Controlled<'a>(&'a Scratch);

impl<'a> Controlled<'a> {
    /// Brings it up; the switch obeys only its tables, with these options besides.
    ///
    /// # Panics
    /// It does not come up.
    pub fn up(scratch: &'a Scratch, options: &str) -> Controlled<'a> {
        let text = format!(
            "name: {LAB}\nnodes: {{a: {{}}, b: {{}}, c: {{}}, c0: {{}}}}\nswitches:\n  \
             s: {{kind: openflow, datapath: 0x1, fail: secure, subnet: [10.99.8.0/24]{options}}}\nlinks:\n"
        );
        let ends = [At::A, At::B, At::C].map(|at| {
            let (node, address) = (at.node(), at.address());
            format!("  - {{ends: [{node}, s], addresses: {{{node}: {address}/24}}}}\n")
        });
        let file = scratch.file("controlled.yaml", text + &ends.concat());
        scratch.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
        Controlled(scratch)
    }

    /// The program of a virtual environment, which is there if the environment is.
    pub fn environment(name: &str, program: &str) -> PathBuf {
        PathBuf::from(ENVIRONMENTS).join(name).join("bin").join(program)
    }

    /// Starts a controller in `c0`; ended when dropped.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn controller(&self, words: &[&str]) -> Running {
        let log = File::create(self.log()).expect("make a log");
        let mut command = Command::new(netloom_kit::Binary::find().path());
        command.args(["-l", LAB, "exec", "c0", "--"]).args(words);
        command.env("NETLOOM_RUNTIME_DIR", self.0.runtime_dir()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a second descriptor")).stderr(log);
        Running(command.spawn().expect("start the controller"))
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("controller.log")
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Whether the first of this many echo requests is answered.
    pub fn answers(&self, from: At, to: At, requests: u32) -> bool {
        let count = requests.to_string();
        let words = ["-l", LAB, "exec", from.node(), "--", "ping", "-c", &count, "-W", "1"];
        self.0.netloom(words.into_iter().chain([to.address()])).finish().status.success()
    }

    /// Waits until one station reaches another.
    ///
    /// # Panics
    /// It never does.
    pub fn reach(&self, from: At, to: At) {
        let end = std::time::Instant::now() + PATIENCE;
        while !self.answers(from, to, 1) {
            let late = std::time::Instant::now() > end;
            assert!(!late, "{to:?} does not answer {from:?}\n{:?}\n{}", self.shown(), self.said());
        }
    }

    /// Waits until this many controllers are connected.
    ///
    /// # Panics
    /// They never are.
    pub fn connected(&self, count: usize) {
        wait_until(&format!("{count} controllers connected"), PATIENCE, || {
            let shown = self.shown().controllers;
            let connected = shown.iter().filter(|c| c.state == ControllerState::Connected);
            (connected.count() == count).then_some(())
        });
    }

    /// State of the switch.
    ///
    /// # Panics
    /// It cannot be asked.
    pub fn shown(&self) -> Shown {
        let control = self.0.runtime_dir().join(LAB).join("o/s/control");
        let connection = Connection::open(&control).expect("connect to the switch");
        let connection = connection.expect("the switch listens").within(PATIENCE);
        connection.show().expect("ask the switch")
    }

    /// Where it speaks OpenFlow, as Open vSwitch's programs have it.
    pub fn openflow(&self) -> String {
        format!("unix:{}", self.0.runtime_dir().join(LAB).join("o/s/openflow").display())
    }

    /// What `ovs-ofctl` says, on this version.
    ///
    /// # Panics
    /// It fails.
    pub fn ofctl(&self, version: &str, verb: &str, words: &[&str]) -> String {
        let openflow = self.openflow();
        let run = Run::new("ovs-ofctl").args(["-O", version, verb, &openflow]).args(words);
        run.finish().code(0).text()
    }

    /// Starts `ovs-ofctl monitor`, whose output is [`Controlled::monitored`].
    ///
    /// # Panics
    /// It cannot be started.
    pub fn monitor(&self) -> Running {
        let log = File::create(self.0.path().join("monitor.log")).expect("make a log");
        let mut command = Command::new("ovs-ofctl");
        command.args(["-O", "OpenFlow13", "monitor", &self.openflow(), "65534"]);
        // Its own control socket is made there.
        command.env("OVS_RUNDIR", self.0.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(log);
        Running(command.spawn().expect("start ovs-ofctl"))
    }

    /// What the monitor has said so far.
    pub fn monitored(&self) -> String {
        std::fs::read_to_string(self.0.path().join("monitor.log")).unwrap_or_default()
    }
}
