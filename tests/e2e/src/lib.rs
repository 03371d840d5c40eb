//! Harness for runs of the real binary: one [`Machine`] per test, which must be clean at the end.
//!
//! Tests may run side by side: the leftovers check looks at what belongs to the own runtime directory.

#![forbid(unsafe_code)]

pub mod browser;
pub mod capturing;
pub mod given;
pub mod guest;
pub mod images;
pub mod live;
pub mod transfer;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use netloom_kit::{
    Finished, Process, Run, Scratch, Snapshot, Terminal, assert_same, done, is_root, lacks, needed,
    needs, needs_namespaces, ordinary_only, processes, program, root_only, rounds, skip,
    wait_until, workspace_root,
};
use serde_json::Value;

/// A clean [`Machine`]; skips the test where this user may not make a lab at all.
#[macro_export]
macro_rules! machine {
    () => {{
        $crate::needs_namespaces!();
        $crate::Machine::new()
    }};
}

/// Skips the test where limits cannot work.
#[macro_export]
macro_rules! needs_cgroups {
    () => {
        $crate::needs!("cgroups");
    };
}

/// Two nodes `a` and `b` with a link; `more` is put into node `a`, in flow style.
pub fn pair(more: &str) -> String {
    format!("name: pair\nnodes:\n  a: {{{more}}}\n  b: {{}}\nlinks:\n  - [a, b]\n")
}

/// A runtime directory of its own and what was there before.
#[derive(Debug)]
pub struct Machine {
    scratch: Scratch,
    before: Snapshot,
}

impl Machine {
    /// Looks at what is there now: nothing but the new folder.
    #[expect(clippy::new_without_default, reason = "a snapshot of now is not a default value")]
    pub fn new() -> Machine {
        Machine::of(Scratch::new())
    }

    /// The same with a new folder of another making.
    pub fn of(scratch: Scratch) -> Machine {
        let before = Snapshot::of_new(&scratch.runtime_dir());
        Machine { scratch, before }
    }

    /// The folder and runtime directory.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The state at the beginning.
    pub fn before(&self) -> &Snapshot {
        &self.before
    }

    /// A run of `netloom`.
    pub fn netloom<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        self.scratch.netloom(args)
    }

    /// A lab file with this text.
    pub fn file(&self, text: &str) -> PathBuf {
        self.scratch.file("lab.yaml", text)
    }

    /// Brings up a lab of this text and asserts success.
    pub fn up(&self, text: &str) -> Finished {
        self.up_file(&self.file(text))
    }

    /// Brings up a lab file and asserts success.
    pub fn up_file(&self, file: &Path) -> Finished {
        let args = ["up".as_ref(), file.as_os_str()];
        self.netloom(args).bound(Duration::from_secs(300)).finish().code(0)
    }

    /// A run in a node.
    pub fn exec(&self, node: &str, command: &[&str]) -> Run {
        self.netloom(["exec", node, "--"].iter().chain(command))
    }

    /// `status --json` of the only lab.
    pub fn status(&self) -> Value {
        self.netloom(["status", "--json"]).finish().code(0).json()
    }

    /// Names and init pids of the only lab's nodes.
    ///
    /// # Panics
    /// When `status --json` has another shape.
    pub fn inits(&self) -> Vec<(String, i32)> {
        let status = self.status();
        let nodes = status["nodes"].as_array().expect("status has a list of nodes");
        let read = |node: &Value| {
            let name = node["name"].as_str().expect("a node has a name").to_owned();
            let pid = node["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            (name, pid.expect("a node has a pid"))
        };
        nodes.iter().map(read).collect()
    }

    /// Takes down what is up and asserts that the machine is as before.
    pub fn down(self) {
        self.netloom(["down", "--all"]).bound(Duration::from_secs(120)).finish().code(0);
        assert_same(&self.before);
    }

    /// Asserts that nothing was made at all.
    pub fn untouched(self) {
        assert_same(&self.before);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(self.scratch.guard());
        }
    }
}

/// SIGKILL.
///
/// # Panics
/// When there is no such process.
pub fn kill(pid: i32) {
    signal(pid, rustix::process::Signal::KILL);
}

/// Sends a signal.
///
/// # Panics
/// When there is no such process.
pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid is not 0");
    rustix::process::kill_process(pid, signal).expect("send signal");
}

/// Pids of this user's processes with this text in their command line.
pub fn with_command_line(text: &str) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let me = format!("{}", rustix::process::getuid().as_raw());
    let mine = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or("");
        uids.split_whitespace().next() == Some(&me)
    };
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
    };
    processes().into_keys().filter(|pid| *pid != own && has(pid) && mine(pid)).collect()
}

/// A process and all that descend from it.
pub fn descendants(pid: i32) -> Vec<i32> {
    let all = processes();
    let mut found = vec![pid];
    let mut looked = 0;
    while let Some(parent) = found.get(looked).copied() {
        found.extend(all.values().filter(|p| p.parent == parent).map(|p| p.pid));
        looked += 1;
    }
    found
}
