//! Programs that a lab's tester starts and waits for, as long as they may take and nobody interrupts.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netloom_sys::process::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags};

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

/// What a program writes to one of its streams.
struct Stream {
    /// `None` after its end.
    from: Option<OwnedFd>,
    text: Vec<u8>,
}

impl Stream {
    fn of(from: Option<impl Into<OwnedFd>>) -> Stream {
        Stream { from: from.map(Into::into), text: Vec::new() }
    }

    /// Reads what is there, once; returns how much it was.
    fn take(&mut self) -> io::Result<usize> {
        let Some(from) = &self.from else { return Ok(0) };
        let mut buffer = [0; 16 << 10];
        let read = match rustix::io::read(from, &mut buffer) {
            Ok(read) => read,
            // The caller looks again.
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(e) => return Err(e.into()),
        };
        if read == 0 {
            self.from = None;
        }
        // The rest is read all the same, so that the program does not wait for a reader.
        let room = KEPT.saturating_sub(self.text.len());
        self.text.extend_from_slice(&buffer[..read.min(room)]);
        Ok(read)
    }

    /// Reads what is there, if that is something or the end.
    fn take_ready(&mut self) -> io::Result<()> {
        if self.from.as_ref().is_some_and(is_ready) {
            self.take()?;
        }
        Ok(())
    }

    /// Reads what a program that has ended has left there. Another one may hold the stream open, and go on writing.
    fn take_left(&mut self) -> io::Result<()> {
        let there = self.from.as_ref().map_or(Ok(0), rustix::io::ioctl_fionread)?;
        let mut left = usize::try_from(there).unwrap_or(usize::MAX);
        while left > 0 && self.from.is_some() {
            left = left.saturating_sub(self.take()?);
        }
        Ok(())
    }
}

/// A program that runs; it ends with this value.
pub(crate) struct Running {
    child: Child,
    process: OwnedFd,
    out: Stream,
    err: Stream,
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

/// Runs a program to its end.
pub(crate) fn run(mut command: Command, timeout: Duration, signals: &OwnedFd) -> Result<Done, Cut> {
    command.stdin(Stdio::null());
    Running::start(command)?.follow(timeout, signals)
}

fn is_ready(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|ready| ready > 0)
}

impl Running {
    /// Starts a program whose output is read.
    pub(crate) fn start(mut command: Command) -> Result<Running, Cut> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let process = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let (out, err) = (Stream::of(child.stdout.take()), Stream::of(child.stderr.take()));
        // Not waited for by its streams: a program that it leaves behind may hold those.
        let process = process.map_err(io::Error::from).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Running { child, process, out, err })
    }

    /// Waits until it writes or ends, and reads from both streams, so that it never waits for a reader of one; `None`
    /// when it is late, else whether it has ended.
    fn step(&mut self, until: Instant, signals: &OwnedFd) -> Result<Option<bool>, Cut> {
        let streams = self.out.from.iter().chain(&self.err.from).map(|fd| fd as &dyn AsFd);
        let fds: Vec<&dyn AsFd> = streams.chain([&self.process as &dyn AsFd]).collect();
        if !wait(signals, &fds, until)? {
            return Ok(None);
        }
        // Before the streams: what it has written until its end is there by now.
        let ended = is_ready(&self.process);
        for stream in [&mut self.out, &mut self.err] {
            if ended { stream.take_left() } else { stream.take_ready() }?;
        }
        // There is always something to read of a program that writes without an end.
        Ok((ended || Instant::now() < until).then_some(ended))
    }

    /// Waits for the first line of its standard output.
    pub(crate) fn first_line(
        &mut self,
        timeout: Duration,
        signals: &OwnedFd,
    ) -> Result<String, Cut> {
        let until = Instant::now() + timeout;
        let mut ended = false;
        loop {
            if let Some(end) = self.out.text.iter().position(|byte| *byte == b'\n') {
                return Ok(String::from_utf8_lossy(&self.out.text[..end]).into_owned());
            }
            if ended {
                return Err(Cut::Failed(String::from_utf8_lossy(&self.err.text).trim().to_owned()));
            }
            ended = self
                .step(until, signals)?
                .ok_or_else(|| Cut::Failed("it takes too long to begin".into()))?;
        }
    }

    /// Closes its standard input and waits for its end.
    pub(crate) fn end(mut self, timeout: Duration, signals: &OwnedFd) -> Result<Done, Cut> {
        drop(self.child.stdin.take());
        self.follow(timeout, signals)
    }

    fn follow(mut self, timeout: Duration, signals: &OwnedFd) -> Result<Done, Cut> {
        use std::os::unix::process::ExitStatusExt;
        let until = Instant::now() + timeout;
        let code = loop {
            match self.step(until, signals)? {
                Some(false) => {}
                Some(true) => {
                    let status = self.child.wait()?;
                    break status.code().or(status.signal().map(|signal| 128 + signal));
                }
                None => break None,
            }
        };
        let [out, err] = [&mut self.out, &mut self.err].map(|of| std::mem::take(&mut of.text));
        Ok(Done { code, out, err })
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
    fn what_writes_without_an_end_takes_too_long_as_well() {
        let done = run(sh("exec yes"), Duration::from_millis(100), &never()).unwrap();
        assert_eq!(done.code, None);
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
        let done = running.end(Duration::from_secs(60), &never()).unwrap();
        assert_eq!((done.code, &done.out[..]), (Some(0), &b"ready\ndone\n"[..]));
    }

    #[test]
    fn no_stream_keeps_the_other_waiting() {
        // More than a pipe holds, on the stream that is not waited for.
        let much = "head -c 300000 /dev/zero >&2";
        let mut command = sh(&format!("{much}; echo ready; cat; {much}; echo done"));
        command.stdin(Stdio::piped());
        let mut running = Running::start(command).unwrap();
        assert_eq!(running.first_line(Duration::from_secs(60), &never()).unwrap(), "ready");
        let done = running.end(Duration::from_secs(60), &never()).unwrap();
        assert_eq!((done.code, done.err.len()), (Some(0), 600_000));
        assert_eq!(done.out, b"ready\ndone\n");
    }

    #[test]
    fn an_interruption_ends_the_wait_for_its_end() {
        let mut command = sh("echo ready; exec sleep 600");
        command.stdin(Stdio::piped());
        let mut running = Running::start(command).unwrap();
        running.first_line(Duration::from_secs(60), &never()).unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&write, b"x").unwrap();
        let cut = running.end(Duration::from_secs(60), &read);
        assert!(matches!(cut, Err(Cut::Interrupted)));
    }

    #[test]
    fn a_command_has_ended_whoever_holds_its_output() {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        // What stays reads until this test closes its end; a shell gives it no input unless told so.
        let mut command = sh("exec 3<&0; cat <&3 & echo begun; echo beside >&2; exit 7");
        command.stdin(Stdio::from(read));
        let mut running = Running::start(command).unwrap();
        assert_eq!(running.first_line(Duration::from_secs(60), &never()).unwrap(), "begun");
        let done = running.end(Duration::from_secs(60), &never()).unwrap();
        assert_eq!((done.code, &done.err[..]), (Some(7), &b"beside\n"[..]));
        drop(write);
    }
}
