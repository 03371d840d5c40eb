//! Runs a program to its end and captures its output, which failed assertions print.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use netloom_sys::disposition::spawn_with_defaults;

use crate::wait::{ends_within, wait_until};

/// A command to run. It inherits only the environment: signals have their default effects.
#[derive(Debug)]
pub struct Run {
    command: Command,
    input: Vec<u8>,
    bound: Duration,
    shown: OsString,
}

/// Result of a run.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Bytes of standard output.
    pub stdout: Vec<u8>,
    /// Bytes of standard error.
    pub stderr: Vec<u8>,
    /// Wall time.
    pub took: Duration,
    shown: OsString,
}

impl Run {
    /// A run of `program`, bounded to three minutes.
    pub fn new(program: impl AsRef<Path>) -> Run {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Run {
            command,
            input: vec![],
            bound: Duration::from_secs(180),
            shown: program.as_os_str().to_owned(),
        }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Run {
        for arg in args {
            self.shown.push(" ");
            self.shown.push(arg.as_ref());
            self.command.arg(arg);
        }
        self
    }

    /// Sets a variable.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(key, value);
        self
    }

    /// Sets the working directory.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Run {
        self.command.current_dir(dir);
        self
    }

    /// Sets its standard input; empty by default.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Run {
        self.input = bytes.into();
        self
    }

    /// Sets its time limit.
    pub fn bound(mut self, bound: Duration) -> Run {
        self.bound = bound;
        self
    }

    /// Starts it and leaves it running, with its three streams as pipes.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn spawn(mut self) -> Child {
        spawn_with_defaults(&mut self.command)
            .unwrap_or_else(|error| panic!("start {}: {error}", self.shown.display()))
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// It cannot be started, or does not end within the bound (it is then killed).
    pub fn finish(self) -> Finished {
        let Run { mut command, input, bound, shown } = self;
        let start = Instant::now();
        let mut child = spawn_with_defaults(&mut command)
            .unwrap_or_else(|error| panic!("start {}: {error}", shown.display()));
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // A program that does not read its input closes it early: not a failure of the run.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
        // Both at once: a program that fills one pipe waits until somebody reads it.
        let stdout = drain(child.stdout.take().expect("stdout is piped"));
        let stderr = drain(child.stderr.take().expect("stderr is piped"));
        let status = wait_bounded(&mut child, bound, &shown);
        let collect = |what: std::thread::JoinHandle<Vec<u8>>, name: &str| {
            let step = || what.is_finished().then_some(());
            wait_until(
                &format!("end of {name} of {} (held open?)", shown.display()),
                Duration::from_secs(60),
                step,
            );
            what.join().expect("reader thread")
        };
        let (stdout, stderr) = (collect(stdout, "stdout"), collect(stderr, "stderr"));
        Finished { status, stdout, stderr, took: start.elapsed(), shown }
    }

    /// Runs it, asserts exit code 0 and returns standard output as text.
    pub fn ok(self) -> String {
        self.finish().code(0).text()
    }
}

impl Finished {
    /// Asserts the exit code, printing all output if it differs.
    ///
    /// # Panics
    /// The code differs.
    pub fn code(self, want: i32) -> Finished {
        let got = self.status.code();
        assert!(got == Some(want), "exit code: wanted {want}, got {}\n{self}", self.how());
        self
    }

    /// Asserts that standard error contains `part`.
    ///
    /// # Panics
    /// It does not.
    pub fn says(self, part: &str) -> Finished {
        assert!(self.errors().contains(part), "stderr lacks `{part}`\n{self}");
        self
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// It is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON: {error}\n{self}"))
    }

    fn how(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => code.to_string(),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        }
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "command: {}", self.shown.display())?;
        writeln!(f, "ended: {} after {:?}", self.how(), self.took)?;
        writeln!(f, "--- stdout\n{}\n--- stderr\n{}", self.text(), self.errors())
    }
}

fn drain(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = vec![];
        // Output read before an error still helps to understand a failure.
        drop(from.read_to_end(&mut bytes));
        bytes
    })
}

fn wait_bounded(child: &mut Child, bound: Duration, shown: &OsStr) -> ExitStatus {
    if !ends_within(child, bound) {
        drop(child.kill());
        drop(child.wait());
        panic!("not done within {bound:?}, killed: {}", shown.display());
    }
    child.wait().expect("wait for child")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Run {
        Run::new("/bin/sh").args(["-c", script])
    }

    #[test]
    fn streams_code_and_input_are_kept_apart() {
        let done = sh("cat; echo err >&2; exit 3").input("in").finish().code(3);
        assert_eq!((done.text().as_str(), done.errors().as_str()), ("in", "err\n"));
    }

    #[test]
    #[should_panic(expected = "wanted 0, got signal 9")]
    fn a_signal_is_no_exit_code() {
        sh("kill -9 $$").finish().code(0);
    }

    #[test]
    #[should_panic(expected = "not done within")]
    fn an_endless_run_is_killed() {
        sh("exec tail -f /dev/null").bound(Duration::from_millis(50)).finish();
    }
}
