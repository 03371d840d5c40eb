//! A program, netloom's or a peer's, that runs beside the measurement as long as its value lives.
//!
//! Its standard input stays open, since some programs end with it. Its output goes to a file, which is shown
//! if it ends too early.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::driver::Driver;

/// How long it may take to start, and to end when asked.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// A running program, ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: String,
    child: Child,
    said: PathBuf,
}

impl Daemon {
    /// Starts it; `name` is unique among the driver's daemons.
    pub(crate) fn start(driver: &Driver, command: &mut Command, name: &str) -> Result<Daemon> {
        let said = driver.folder().join(format!("{name}.log"));
        let log = File::create(&said).with_context(|| format!("create {}", said.display()))?;
        let also = log.try_clone().context("duplicate a descriptor")?;
        command.stdin(Stdio::piped()).stdout(log).stderr(also);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Daemon { name: name.to_owned(), child, said })
    }

    /// Waits until `begun` reports that it has started.
    pub(crate) fn until(mut self, mut begun: impl FnMut(&Daemon) -> bool) -> Result<Daemon> {
        let end = Instant::now() + PATIENCE;
        while !begun(&self) {
            let ended = self.child.try_wait().with_context(|| format!("wait for {}", self.name))?;
            let what = match ended {
                Some(status) => status.to_string(),
                None if Instant::now() > end => format!("not begun after {PATIENCE:?}"),
                None => {
                    sleep(LOOK);
                    continue;
                }
            };
            bail!("{}: {what}: {}", self.name, self.said().trim());
        }
        Ok(self)
    }

    /// Its output so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Signal first, so that it can clean up; a failure means that it has ended.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        drop(self.child.stdin.take());
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => sleep(LOOK),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shell(driver: &Driver, script: &str) -> Daemon {
        Daemon::start(driver, Command::new("sh").args(["-c", script]), "script").unwrap()
    }

    #[test]
    fn it_ends_with_its_value() {
        let driver = Driver::new(&crate::Programs::nothing()).unwrap();
        let running = shell(&driver, "echo begun; read line").until(|d| d.said() == "begun\n");
        let proc = format!("/proc/{}", running.as_ref().unwrap().pid());
        assert!(Path::new(&proc).exists());
        drop(running);
        assert!(!Path::new(&proc).exists());
    }

    #[test]
    fn an_early_end_is_told() {
        let driver = Driver::new(&crate::Programs::nothing()).unwrap();
        let error = shell(&driver, "echo broken >&2; exit 3").until(|_| false).unwrap_err();
        assert!(error.to_string().contains("exit status: 3: broken"), "{error}");
    }
}
