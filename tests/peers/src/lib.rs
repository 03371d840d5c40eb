//! Harness for tests with others' programs: a switch's process, a station on it, VDE programs, OpenFlow
//! controllers; programs with and without guard.
//!
//! A switch is the tests' executable, started again as [`serve_as_switch`]. Nothing is taken from the machine's folders: switches are named by the path of
//! their socket, in the test's own folder. VDE programs find the plug-in by [`with_plugin`].

#![forbid(unsafe_code)]

mod controlled;
mod frames;
mod guarded;
mod station;
mod stream;
mod switch;

pub use controlled::{At, Controlled};
pub use frames::{arp_question, frame, is_arp_answer};
pub use guarded::Ground;
pub use netloom_kit::{isolated, needs, needs_tun, program, skip, wait_until};
pub use station::Station;
pub use stream::VdePlug;
pub use switch::{Switch, serve_as_switch};

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

/// Longest wait for anything that ought to happen at once.
pub const SOON: Duration = Duration::from_secs(20);

/// A folder of the test's own; removed when dropped.
///
/// # Panics
/// When it cannot be made.
pub fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("netloom-test-").tempdir().expect("make a folder")
}

/// A program for which libvdeplug finds our plug-in, and no other.
pub fn with_plugin(program: &str) -> Command {
    let plugin = std::env::var_os("NETLOOM_VDEPLUG").map_or_else(beside_the_test, PathBuf::from);
    let mut command = Command::new(program);
    command.env("VDEPLUGIN_PATH", plugin.parent().expect("a folder"));
    command
}

fn beside_the_test() -> PathBuf {
    let own = std::env::current_exe().expect("own path");
    let places = own.ancestors().skip(1).take(2).map(|at| at.join("libvdeplug_netloom.so"));
    places.into_iter().find(|path| path.is_file()).expect("the plug-in is built with its tests")
}

/// A program that runs; killed when dropped.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Waits for its end; whether it ended well.
    ///
    /// # Panics
    /// When it does not end soon.
    pub fn ends(&mut self) -> bool {
        wait_until("end of the program", SOON, || self.0.try_wait().expect("wait")).success()
    }

    /// Whether it runs.
    ///
    /// # Panics
    /// When that cannot be asked.
    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("wait").is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
