//! Programs that a lab's tester starts and waits for, as long as they may take and nobody interrupts.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use netloom_sys::process::timespec;
use rustix::event::{PollFd, PollFlags, poll};

/// How much of a program's output is kept, of each stream.
const KEPT: usize = 1 << 20;

/// Why a step ends without a result.
#[derive(Debug)]
pub(crate) enum Cut {
    /// This process was told to end.
    Interrupted,
    /// It cannot be done; the words are what was seen.
    Failed(String),
}

impl From<io::Error> for Cut {
    fn from(e: io::Error) -> Cut {
        Cut::Failed(e.to_string())
    }
}

/// A program that has ended.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// How, as a shell shows it; `None`: it took too long and was killed.
    pub(crate) code: Option<i32>,
    /// Its standard output.
    pub(crate) out: Vec<u8>,
    /// Its standard error.
    pub(crate) err: Vec<u8>,
}

/// A program that runs; it ends with this value.
pub(crate) struct Running {
    child: Child,
    out: Option<ChildStdout>,
    done: Done,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits at most until `until` for something to read from one of these; `false` when it is late.
fn wait(signals: &OwnedFd, fds: &[&dyn AsFd], until: Instant) -> Result<bool, Cut> {
    let mut watched = vec![PollFd::new(signals, PollFlags::IN)];
    watched.extend(fds.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
    let left = timespec(until.saturating_duration_since(Instant::now()));
    match poll(&mut watched, Some(&left)) {
        // Something may be there: the caller looks, and waits again if not.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(e) => Err(io::Error::from(e).into()),
        Ok(_) if !watched[0].revents().is_empty() => Err(Cut::Interrupted),
        Ok(ready) => Ok(ready > 0),
    }
}

/// Waits for this long, unless interrupted.
pub(crate) fn pause(signals: &OwnedFd, time: Duration) -> Result<(), Cut> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        wait(signals, &[], until)?;
    }
    Ok(())
}

/// Reads what is there; `false` at the end.
fn take(from: &impl AsFd, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    let read = match rustix::io::read(from, &mut buffer) {
        Ok(read) => read,
        Err(rustix::io::Errno::INTR) => return Ok(true),
        Err(e) => return Err(e.into()),
    };
    // The rest is read all the same, so that the program does not wait for a reader.
    let room = KEPT.saturating_sub(into.len());
    into.extend_from_slice(&buffer[..read.min(room)]);
    Ok(read > 0)
}

/// Runs a program to its end.
pub(crate) fn run(mut command: Command, timeout: Duration, signals: &OwnedFd) -> Result<Done, Cut> {
    let until = Instant::now() + timeout;
    command.stdin(Stdio::null());
    let mut running = Running::start(command)?;
    let mut err = running.child.stderr.take();
    loop {
        let fds: Vec<&dyn AsFd> = running
            .out
            .iter()
            .map(|fd| fd as &dyn AsFd)
            .chain(err.iter().map(|fd| fd as &dyn AsFd))
            .collect();
        if fds.is_empty() {
            break;
        }
        if !wait(signals, &fds, until)? {
            return Ok(std::mem::take(&mut running.done));
        }
        running.read()?;
        if let Some(stream) = err.as_ref().filter(is_ready)
            && !take(stream, &mut running.done.err)?
        {
            err = None;
        }
    }
    running.finish()
}

fn is_ready(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|ready| ready > 0)
}

impl Running {
    /// Starts a program whose output is read.
    pub(crate) fn start(mut command: Command) -> Result<Running, Cut> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let out = child.stdout.take();
        Ok(Running { child, out, done: Done::default() })
    }

    /// Reads standard output, if something is there.
    fn read(&mut self) -> io::Result<()> {
        if let Some(stream) = self.out.as_ref().filter(is_ready)
            && !take(stream, &mut self.done.out)?
        {
            self.out = None;
        }
        Ok(())
    }

    /// Waits for the first line of its standard output.
    pub(crate) fn first_line(
        &mut self,
        timeout: Duration,
        signals: &OwnedFd,
    ) -> Result<String, Cut> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(end) = self.done.out.iter().position(|byte| *byte == b'\n') {
                return Ok(String::from_utf8_lossy(&self.done.out[..end]).into_owned());
            }
            let Some(out) = &self.out else {
                let done = self.end()?;
                return Err(Cut::Failed(String::from_utf8_lossy(&done.err).trim().to_owned()));
            };
            if !wait(signals, &[out], until)? {
                return Err(Cut::Failed("it takes too long to begin".into()));
            }
            self.read()?;
        }
    }

    /// Closes its standard input and waits for its end.
    pub(crate) fn end(&mut self) -> Result<Done, Cut> {
        drop(self.child.stdin.take());
        let mut err = self.child.stderr.take();
        while self.out.is_some() {
            let out = self.out.as_ref().map(AsFd::as_fd);
            let _ = out.map(|out| poll(&mut [PollFd::from_borrowed_fd(out, PollFlags::IN)], None));
            self.read()?;
        }
        while let Some(stream) = &err {
            if !take(stream, &mut self.done.err)? {
                err = None;
            }
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<Done, Cut> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait()?;
        self.done.code = status.code().or(status.signal().map(|signal| 128 + signal));
        Ok(std::mem::take(&mut self.done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> OwnedFd {
        let (read, write) = rustix::pipe::pipe().unwrap();
        // Stays open for the life of the tests' process.
        std::mem::forget(write);
        read
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_code_are_kept() {
        let done =
            run(sh("echo a; echo b >&2; exit 3"), Duration::from_secs(60), &never()).unwrap();
        assert_eq!((done.code, &done.out[..], &done.err[..]), (Some(3), &b"a\n"[..], &b"b\n"[..]));
        let done = run(sh("kill -9 $$"), Duration::from_secs(60), &never()).unwrap();
        assert_eq!(done.code, Some(137));
    }

    #[test]
    fn what_takes_too_long_is_killed_and_has_no_code() {
        // On a busy machine a shell may not have begun when a short time is over.
        for milliseconds in [300, 3_000, 30_000] {
            let time = Duration::from_millis(milliseconds);
            let done = run(sh("echo early; exec sleep 600"), time, &never()).unwrap();
            assert_eq!(done.code, None);
            if !done.out.is_empty() {
                assert_eq!(done.out, b"early\n");
                return;
            }
        }
        panic!("what it had said is lost");
    }

    #[test]
    fn an_interruption_ends_it() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&write, b"x").unwrap();
        let cut = run(sh("exec sleep 600"), Duration::from_secs(60), &read);
        assert!(matches!(cut, Err(Cut::Interrupted)));
        assert!(matches!(pause(&read, Duration::from_secs(60)), Err(Cut::Interrupted)));
    }

    #[test]
    fn a_program_that_listens_ends_with_its_input() {
        let mut command = sh("echo ready; cat; echo done");
        command.stdin(Stdio::piped());
        let mut running = Running::start(command).unwrap();
        let line = running.first_line(Duration::from_secs(60), &never()).unwrap();
        assert_eq!(line, "ready");
        assert_eq!(running.end().unwrap().out, b"ready\ndone\n");
    }
}
