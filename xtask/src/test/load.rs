//! Load beside tests: processes that keep the CPUs busy, each in a session of its own.
//!
//! With a kernel that shares CPUs by sessions (sched(7), autogroup), processes of one session would together weigh as
//! much as a single test.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Works until its parent has ended, however that ends. It looks after each 10,000 steps.
const BUSY: &str =
    "while kill -0 $PPID; do i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); done; done";

/// Busy processes, until dropped.
#[derive(Debug)]
pub(super) struct Load(Vec<Child>);

impl Load {
    /// Starts some of them.
    pub(super) fn start(processes: u32) -> Result<Load> {
        let mut load = Load(vec![]);
        for _ in 0..processes {
            // setsid(1) forks only if it leads a process
            // group: so the child here is the shell itself.
            let mut busy = Command::new("setsid");
            busy.args(["sh", "-c", BUSY]).stdin(Stdio::null()).stderr(Stdio::null());
            load.0.push(busy.spawn().context("start `setsid sh`, the load beside tests")?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for busy in &mut self.0 {
            // It may have ended.
            let _ = busy.kill();
            let _ = busy.wait();
        }
    }
}
