//! A program with captured output and a detectable start, ended by SIGINT as in a user's terminal, whatever
//! signals this process was started to ignore. It is killed when its value is dropped and when this process
//! ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_sys::disposition::spawn_with_defaults;
use rustix::process::{Pid, Signal, kill_process};

use crate::processes::cpu_ns;

/// How long a program may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(5);
/// A program below this percentage of a core is idle.
const IDLE: f64 = 5.0;
/// Time over which that is measured.
const SEEN: Duration = Duration::from_millis(40);

/// Command prefix that pins a command to a core and ends it with this process.
pub(crate) fn on(core: &str) -> [&str; 6] {
    ["setpriv", "--pdeathsig", "TERM", "taskset", "--cpu-list", core]
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// A program's output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Program {
    /// Starts a program with its output in files in `folder`, named after `name`.
    pub(crate) fn start(folder: &Path, command: &mut Command, name: &str) -> Result<Program> {
        let file = |end: &str| {
            let path = folder.join(format!("{name}.{end}"));
            let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
            Ok::<_, anyhow::Error>((path, file))
        };
        let ((out, to_out), (err, to_err)) = (file("out")?, file("err")?);
        command.stdin(Stdio::null()).stdout(to_out).stderr(to_err);
        let child = spawn_with_defaults(command).with_context(|| format!("start {command:?}"))?;
        Ok(Program { name: name.to_owned(), child, out, err })
    }

    /// Waits until its output contains `words`.
    pub(crate) fn until_it_says(mut self, words: &str) -> Result<Program> {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = self.said();
            if said.out.contains(words) || said.err.contains(words) {
                return Ok(self);
            }
            let ended = self.child.try_wait().with_context(|| format!("wait for {}", self.name))?;
            let what = match ended {
                Some(status) => status.to_string(),
                None if Instant::now() > end => format!("no `{words}` after {PATIENCE:?}"),
                None => {
                    sleep(LOOK);
                    continue;
                }
            };
            bail!("{}: {what}: {} {}", self.name, said.err.trim(), said.out.trim());
        }
    }

    /// Waits until it is idle.
    pub(crate) fn until_idle(&self) {
        let end = Instant::now() + PATIENCE;
        let own = [self.child.id()];
        let mut before = cpu_ns(&own);
        while Instant::now() < end {
            let start = Instant::now();
            sleep(SEEN);
            let now = cpu_ns(&own);
            if crate::processes::percent(now.saturating_sub(before), start.elapsed()) < IDLE {
                return;
            }
            before = now;
        }
    }

    /// Interrupts it as Ctrl-C does, waits for its end, and returns its output.
    pub(crate) fn interrupt(mut self) -> Result<Said> {
        // A failure means that it has ended, as the check below sees.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let ended = self.child.try_wait().with_context(|| format!("wait for {}", self.name))?;
            let said = self.said();
            match ended {
                Some(status) if status.success() => return Ok(said),
                Some(status) => bail!("{}: {status}: {}", self.name, said.err.trim()),
                None => sleep(LOOK),
            }
        }
        bail!("{}: still there {PATIENCE:?} after SIGINT", self.name)
    }

    /// Waits until it ends by itself, with whatever status, and returns its output.
    pub(crate) fn end(mut self) -> Result<Said> {
        self.child.wait().with_context(|| format!("wait for {}", self.name))?;
        Ok(self.said())
    }

    fn said(&self) -> Said {
        let read = |path: &Path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Said { out: read(&self.out), err: read(&self.err) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail after a successful wait.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, script: &str) -> Program {
        Program::start(folder, Command::new("sh").args(["-c", script]), "script").unwrap()
    }

    #[test]
    fn it_begins_works_and_ends_when_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'echo end; kill $!; exit 0' INT; echo begun >&2; sleep 60 & wait";
        let program = shell(folder.path(), script).until_it_says("begun").unwrap();
        program.until_idle();
        let said = program.interrupt().unwrap();
        assert_eq!((said.out.as_str(), said.err.as_str()), ("end\n", "begun\n"));
    }

    #[test]
    fn one_that_ends_before_it_begins_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let error = shell(folder.path(), "echo broken >&2; exit 3").until_it_says("begun");
        assert!(error.unwrap_err().to_string().contains("broken"));
    }

    #[test]
    fn it_does_not_outlive_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let program = shell(folder.path(), "echo begun; exec sleep 60").until_it_says("begun");
        let program = program.unwrap();
        let pid = program.child.id();
        drop(program);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
