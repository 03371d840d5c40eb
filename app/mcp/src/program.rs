//! Runs netloom's own verbs: without a shell, for a limited time, with limited output.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::{Error, Result};

/// Limits on a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long it may run.
    pub(crate) time: Duration,
    /// Most bytes that are kept of each of its outputs.
    pub(crate) bytes: usize,
}

impl Limits {
    /// Output that an answer shows as it is.
    pub(crate) const fn shown(time: Duration) -> Limits {
        Limits { time, bytes: 12 * 1024 }
    }

    /// Output that is read, or is a resource.
    pub(crate) const fn read(time: Duration) -> Limits {
        Limits { time, bytes: 1024 * 1024 }
    }
}

/// How long a program that was told to end may take, and how long its output may lag behind its end: a program that it
/// started may hold the pipe open.
const GRACE: Duration = Duration::from_secs(5);
const LAG: Duration = Duration::from_millis(200);

/// What a program left.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Its exit code, if it ended by itself.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
    /// Whether it was ended because its time was over.
    pub(crate) late: bool,
}

impl Ended {
    /// The output of a program that succeeded.
    ///
    /// # Errors
    /// It failed: in its own words.
    pub(crate) fn good(self) -> Result<String> {
        if self.code == Some(0) {
            return Ok(self.output);
        }
        let words = if self.errors.trim().is_empty() { &self.output } else { &self.errors };
        let late = if self.late { " (it took too long and was ended)" } else { "" };
        Err(Error::Refused(format!("{}{late}", words.trim())))
    }
}

/// Runs a program to its end, or until its time is over.
///
/// # Errors
/// It cannot be started or watched.
pub(crate) fn run(
    program: &Path,
    args: &[&str],
    input: Option<&str>,
    limits: Limits,
) -> Result<Ended> {
    let failed = |e: std::io::Error| Error::Refused(format!("{program:?}: start: {e}"));
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(failed)?;
    let output = kept(child.stdout.take(), limits.bytes);
    let errors = kept(child.stderr.take(), limits.bytes);
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), input) {
        let text = text.to_owned();
        // A program that does not read its input must not hold up the others.
        std::thread::spawn(move || pipe.write_all(text.as_bytes()));
    }
    let (code, late) = waited(&mut child, limits.time).map_err(failed)?;
    let received = |from| received(from, limits.bytes);
    Ok(Ended { code, output: received(&output), errors: received(&errors), late })
}

/// Waits for the end; asks for it when the time is over, then forces it.
fn waited(child: &mut Child, time: Duration) -> std::io::Result<(Option<i32>, bool)> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return Ok((child.wait()?.code(), false)) };
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let within = |time: Duration| {
        let time = Timespec::try_from(time).ok();
        rustix::event::poll(&mut [PollFd::new(&ended, PollFlags::IN)], time.as_ref())
    };
    let late = within(time)? == 0;
    if late {
        // Not reaped yet, so the number is still the program's.
        _ = kill_process(pid, Signal::TERM);
        if within(GRACE)? == 0 {
            child.kill()?;
        }
    }
    Ok((child.wait()?.code().filter(|_| !late), late))
}

/// Keeps the first bytes of an output and throws away the rest, so that the program is never held up.
fn kept(pipe: Option<impl Read + Send + 'static>, most: usize) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            let mut room = most;
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                let part = &buffer[..length.min(room)];
                room -= part.len();
                if !part.is_empty() && send.send(part.to_vec()).is_err() {
                    return;
                }
            }
        });
    }
    receive
}

/// What was kept until the end, or until nothing more comes.
fn received(from: &mpsc::Receiver<Vec<u8>>, most: usize) -> String {
    let mut bytes = vec![];
    while let Ok(part) = from.recv_timeout(LAG) {
        bytes.extend(part);
    }
    let cut = bytes.len() >= most;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if cut {
        text += "\n... (more was left out)";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_its_input_its_output_and_its_code() {
        let script = "cat; echo wrong >&2; exit 3";
        let ended = run(Path::new("/bin/sh"), &["-c", script], Some("given"), Limits::shown(GRACE))
            .unwrap();
        assert_eq!(
            (ended.code, ended.output.as_str(), ended.errors.trim()),
            (Some(3), "given", "wrong")
        );
        assert_eq!(ended.good().unwrap_err().to_string(), "wrong");
    }

    #[test]
    fn a_program_that_never_ends_is_ended_and_one_that_writes_without_end_is_bounded() {
        let args = ["-c", "exec yes"];
        let limits = Limits { time: Duration::from_millis(50), bytes: 1000 };
        let ended = run(Path::new("/bin/sh"), &args, None, limits).unwrap();
        assert!(ended.late && ended.code.is_none());
        assert!(ended.output.starts_with("y\ny\n") && ended.output.len() < 1100);
    }

    #[test]
    fn a_program_that_leaves_another_behind_is_not_waited_for() {
        let script = "sleep 600 & echo $!";
        let ended = run(Path::new("/bin/sh"), &["-c", script], None, Limits::shown(GRACE)).unwrap();
        let left = ended.output.trim().parse().ok().and_then(Pid::from_raw).unwrap();
        assert_eq!(ended.code, Some(0));
        kill_process(left, Signal::KILL).unwrap();
    }
}
