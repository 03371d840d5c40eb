//! Removes what an experiment made if it cannot do so itself: it was killed, or ended by a signal.
//!
//! That is done by another process of this program, which learns from its standard input that the experiment has ended. It
//! has a process group of its own, so that it outlives a Ctrl-C.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::Programs;

/// Its words.
const WORDS: [&str; 2] = ["peer", "sweep"];

/// Waits for the end of the process that started it, or of its value.
#[derive(Debug)]
pub(crate) struct Sweeper(Child);

impl Sweeper {
    /// Starts it for the labs of a runtime directory, and for another folder.
    pub(crate) fn start(programs: &Programs, runtime: &Path, folder: &Path) -> Result<Sweeper> {
        let mut command = Command::new(&programs.own);
        command.args(WORDS).args([runtime, folder, &programs.netloom]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Sweeper(child))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It has nothing left to do, and no other is its parent.
        let _ = self.0.wait();
    }
}

/// Waits until standard input ends; then takes down the labs of the runtime directory by this netloom and removes both
/// folders, unless they are gone.
///
/// # Errors
/// What cannot be taken down or removed.
pub(crate) fn sweep(runtime: &Path, folder: &Path, netloom: &Path) -> Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new()).context("wait for the experiment's end")?;
    if runtime.exists() {
        let mut down = Command::new(netloom);
        down.args(["down", "--all"]).env("NETLOOM_RUNTIME_DIR", runtime);
        down.stdin(Stdio::null()).stdout(Stdio::null());
        down.status().with_context(|| format!("start {down:?}"))?;
    }
    for left in [runtime, folder].into_iter().filter(|left| left.exists()) {
        std::fs::remove_dir_all(left).with_context(|| format!("remove {}", left.display()))?;
    }
    Ok(())
}
