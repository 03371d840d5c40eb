//! A slicer's process, a switch before it, and clients of virtual switches.

mod peer;
mod switch;

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use netloom_slice::control::Connection;
use netloom_slice::control::requests::{Shown, SliceShown, VirtualShown};
use netloom_slice::{Application, Policy};

pub use peer::Peer;
pub use switch::Switch;

/// Longest that anything is waited for.
pub const BOUND: Duration = Duration::from_secs(60);

/// Two slices of two ports each; more keys for the first.
pub fn two(more: &str) -> String {
    format!(
        "switches: {{s: {{datapath: 0x1}}}}\nslices:\n  red: {{switches: {{s: {{ports: [1, 2]}}}}{more}}}\n  \
         blue: {{switches: {{s: {{ports: [3, 4]}}}}}}\n"
    )
}

/// The slices of a file.
pub fn policy(text: &str) -> Policy {
    Policy::from(netloom_model::slices::policy("policy", text.as_bytes()).expect("slices"))
}

/// Waits for something.
pub fn wait<T>(what: &str, cond: impl FnMut() -> Option<T>) -> T {
    netloom_kit::wait_until(what, BOUND, cond)
}

/// A slicer's process, and its folder.
pub struct Slicer {
    process: Option<Child>,
    pub folder: tempfile::TempDir,
    pub application: Application,
}

impl Slicer {
    /// One with the slices of this file.
    pub fn start(policy: &str) -> Slicer {
        Slicer::with(policy, |_| {})
    }

    /// One that is told something besides.
    pub fn with(policy: &str, tell: impl FnOnce(&mut Application)) -> Slicer {
        let folder = tempfile::tempdir().expect("a folder");
        let mut application = Application {
            socket: Some(folder.path().join("openflow")),
            services: Some(folder.path().to_owned()),
            memory: Some(folder.path().to_owned()),
            ..Application::new("test", self::policy(policy))
        };
        tell(&mut application);
        let mut slicer = Slicer { process: None, folder, application };
        slicer.run();
        slicer
    }

    /// Starts its process, and waits until it serves.
    pub fn run(&mut self) {
        let told = serde_json::to_string(&self.application).expect("JSON");
        let mut command = super::process::command(self.folder.path(), &told);
        command.stdout(Stdio::null());
        // libtest has more threads than the one that serves: none may take the signals of a slicer.
        let start = move || {
            netloom_sys::process::block_signals();
            command.spawn().expect("start a slicer")
        };
        let mut child = std::thread::spawn(start).join().expect("a started slicer");
        wait("the slicer serves", || {
            assert!(child.try_wait().expect("wait").is_none(), "it has ended");
            let connection = Connection::open(&self.folder.path().join("control")).ok()??;
            connection.within(BOUND).show().ok()
        });
        self.process = Some(child);
    }

    /// Kills its process, as a crash would.
    pub fn kill(&mut self) {
        let mut child = self.process.take().expect("a process");
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    pub fn control(&self) -> Connection {
        let path = self.folder.path().join("control");
        Connection::open(&path).expect("connect").expect("a slicer").within(BOUND)
    }

    pub fn show(&self) -> Shown {
        self.control().show().expect("its state")
    }

    pub fn slice(&self, name: &str) -> SliceShown {
        let all = self.show().slices;
        all.into_iter().find(|slice| slice.name == name).expect("a slice")
    }

    /// The virtual switch of a slice.
    pub fn of(&self, slice: &str) -> VirtualShown {
        self.slice(slice).switches.into_iter().next().expect("a switch")
    }

    /// Where switches connect.
    pub fn openflow(&self) -> PathBuf {
        self.folder.path().join("openflow")
    }

    /// Waits until its switch is there.
    pub fn ready(&self) {
        wait("the switch is there", || {
            let shown = self.show();
            shown.switches.iter().all(|switch| switch.connected).then_some(())
        });
    }

    /// A client of a slice's switch.
    pub fn peer(&self, slice: &str) -> Peer {
        Peer::unix(&self.folder.path().join(format!("{slice}.s")))
    }
}

impl Drop for Slicer {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
