//! The frames of a step: `netloom capture --all` beside it, whose file is kept where the step does not hold.
//!
//! It is a process of its own, since a capture of an ordinary user's lab enters the lab's user namespace. It ends with the
//! step, and with its lab.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

/// The longest time until a capture has opened its interfaces.
const OPENS: Duration = Duration::from_secs(60);

/// How netloom begins what it says of a failure.
const OWN: &str = "netloom: ";

/// Ring buffer of each interface: links of tests are many and mostly quiet.
const RING: &str = "1MiB";

/// The capture of one step.
pub(super) struct Recording {
    child: Option<Child>,
    /// Reads what it says after its first line: a full pipe would hold it up, and cost frames.
    rest: Option<JoinHandle<String>>,
    file: PathBuf,
    /// Why there is none.
    lacks: Option<String>,
}

impl Recording {
    /// Captures all links of a lab into `PREFIX-STEP.pcapng`, from now on.
    pub(super) fn begin(lab: &str, prefix: &Path, step: usize) -> Recording {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!("-{step}.pcapng"));
        let mut recording = Recording { child: None, rest: None, file: name.into(), lacks: None };
        let mut command = Command::new("/proc/self/exe");
        command.args(["-l", lab, "capture", "--all", "--ring", RING, "--write"]);
        command.arg(&recording.file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => recording.child = Some(child),
            Err(error) => recording.lacks = Some(format!("start netloom capture: {error}")),
        }
        // Interfaces are open when it says how it captures them.
        match recording.first_line() {
            Some(line) if !line.starts_with(OWN) => {}
            Some(line) => recording.lack(&line),
            None => recording.lack("netloom capture did not open the lab's links"),
        }
        let errors = recording.child.as_mut().and_then(|child| child.stderr.take());
        recording.rest = errors.map(|errors| std::thread::spawn(move || all_of(errors)));
        recording
    }

    /// Ends it. What the report says about it where it is kept.
    pub(super) fn end(mut self, keep: bool) -> Option<String> {
        self.stop();
        if !keep {
            // One that never began has no file.
            let _ = std::fs::remove_file(&self.file);
            return None;
        }
        Some(match &self.lacks {
            Some(why) => format!("no frames of this step: {why}"),
            None => format!("frames of this step: {}", self.file.display()),
        })
    }

    fn lack(&mut self, why: &str) {
        // As netloom begins what it says of itself.
        let why = why.trim_end();
        let why = why.strip_prefix(OWN).unwrap_or(why);
        self.lacks.get_or_insert_with(|| why.to_owned());
    }

    /// The first line that it says, within a bound.
    fn first_line(&mut self) -> Option<String> {
        let errors = self.child.as_mut()?.stderr.as_mut()?;
        let end = Instant::now() + OPENS;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok()?;
            let mut fds = [PollFd::new(&*errors, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(0) => return None,
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) | Err(_) => {}
            }
            let mut byte = [0];
            match errors.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                _ => break,
            }
        }
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }

    /// Has the capture write what it has, and waits for its end.
    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // One that has ended needs no signal; it is waited for below, so that its number is still its own.
            let _ = kill_process(pid, Signal::TERM);
        }
        // It ends with the output that it reads.
        let said = self.rest.take().and_then(|rest| rest.join().ok()).unwrap_or_default();
        match child.wait() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                self.lack(said.lines().last().unwrap_or(&status.to_string()));
            }
            Err(error) => self.lack(&format!("wait for netloom capture: {error}")),
        }
    }
}

fn all_of(mut errors: ChildStderr) -> String {
    let mut text = Vec::new();
    // What was read before an error is what there is.
    let _ = errors.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

impl Drop for Recording {
    /// Of a step that was cut off: the capture ends with it, and its file stays.
    fn drop(&mut self) {
        self.stop();
    }
}
