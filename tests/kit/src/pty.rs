//! A terminal for a program under test: its output, its input, its size.
//!
//! `setsid` gives the program its own session with this terminal as the controlling one; signals have their
//! default effects.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use netloom_sys::disposition::spawn_with_defaults;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wait_until;

/// How long a program that would hang is waited for.
const BOUND: Duration = Duration::from_secs(60);

/// A program on a terminal.
#[derive(Debug)]
pub struct Terminal {
    master: File,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Ends the reader when it is dropped.
    reader: Option<(OwnedFd, JoinHandle<()>)>,
}

impl Terminal {
    /// Starts `program` on a terminal of 80 columns and 24 rows.
    ///
    /// # Panics
    /// No terminal is available, or the program cannot be started.
    pub fn start(program: &Path, args: &[&str], env: &[(&str, &Path)]) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("open a terminal");
        grantpt(&master).expect("grant terminal");
        unlockpt(&master).expect("unlock terminal");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("set terminal size");
        let name = ptsname(&master, Vec::new()).expect("name of terminal");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = rustix::fs::open(&name, flags, Mode::empty()).expect("open terminal's side");
        let stdio = || Stdio::from(side.try_clone().expect("duplicate terminal"));
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(args).env("TERM", "xterm");
        command.envs(env.iter().copied()).stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = spawn_with_defaults(&mut command).expect("start program on terminal");
        let master = File::from(master);
        let (shown, reader) = collect(master.try_clone().expect("duplicate terminal"));
        Terminal { master, child, shown, reader: Some(reader) }
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Closes the terminal, as a window that is closed, and waits up to a minute for the program's end.
    ///
    /// # Panics
    /// It does not end.
    pub fn hang_up(mut self) -> ExitStatus {
        if let Some((stop, reader)) = self.reader.take() {
            // The terminal hangs up when no descriptor of
            // this side is left, and the reader has one.
            drop(stop);
            reader.join().expect("reader lives");
        }
        // Nobody has this side of the terminal any more.
        self.master = File::open("/dev/null").expect("open /dev/null");
        wait_until("end of the program without a terminal", BOUND, || {
            self.child.try_wait().expect("wait for child")
        })
    }

    /// Waits up to a minute until the text has appeared this many times.
    ///
    /// # Panics
    /// It did not; the message shows all output.
    pub fn expect_times(&self, text: &str, times: usize) {
        let end = std::time::Instant::now() + BOUND;
        while self.screen().matches(text).count() < times {
            let late = std::time::Instant::now() > end;
            assert!(!late, "terminal did not show `{text}` {times} times but:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Types text; `\x03` is Ctrl-C, `\x04` end of input.
    ///
    /// # Panics
    /// The terminal is gone.
    pub fn type_text(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("type on terminal");
    }

    /// Changes the size: the program gets SIGWINCH.
    ///
    /// # Panics
    /// The terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).expect("set terminal size");
    }

    /// All output so far.
    ///
    /// # Panics
    /// Never in practice: the reader does not panic.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("reader lives")).into_owned()
    }

    /// Waits up to a minute until the text appears.
    ///
    /// # Panics
    /// The text did not appear; the message shows all output.
    pub fn expect(&self, text: &str) {
        let end = std::time::Instant::now() + BOUND;
        while !self.screen().contains(text) {
            let late = std::time::Instant::now() > end;
            assert!(!late, "terminal never showed `{text}` but:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits up to a minute for its end.
    ///
    /// # Panics
    /// It does not end.
    pub fn finish(mut self) -> ExitStatus {
        wait_until("end of the program on the terminal", BOUND, || {
            self.child.try_wait().expect("wait for child")
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

type Reader = (OwnedFd, JoinHandle<()>);

/// Collects output in a thread, until the other side ends or the descriptor is dropped.
fn collect(mut master: File) -> (Arc<Mutex<Vec<u8>>>, Reader) {
    let shown = Arc::new(Mutex::new(vec![]));
    let sink = Arc::clone(&shown);
    let (stopped, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("make a pipe");
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            let mut fds =
                [PollFd::new(&master, PollFlags::IN), PollFd::new(&stopped, PollFlags::IN)];
            let polled = rustix::event::poll(&mut fds, None);
            if polled.is_ok() && !fds[1].revents().is_empty() {
                break;
            }
            // The other side's end shows as an error (EIO).
            match master.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    sink.lock().expect("no holder panics").extend_from_slice(&buffer[..count]);
                }
            }
        }
    });
    (shown, (stop, reader))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_a_terminal_its_size_and_keys() {
        let script = "test -t 0 && test -t 1 && stty size && read x && echo got:$x";
        let mut terminal = Terminal::start(Path::new("/bin/sh"), &["-c", script], &[]);
        terminal.expect("24 80");
        terminal.type_text("hello\n");
        terminal.expect("got:hello");
        assert!(terminal.finish().success());
    }

    #[test]
    fn a_closed_terminal_hangs_its_program_up() {
        use std::os::unix::process::ExitStatusExt;
        let script = "echo ready; exec tail -f /dev/null";
        let terminal = Terminal::start(Path::new("/bin/sh"), &["-c", script], &[]);
        terminal.expect_times("ready", 1);
        assert_eq!(terminal.hang_up().signal(), Some(1));
    }

    #[test]
    fn ctrl_c_reaches_the_program() {
        use std::os::unix::process::ExitStatusExt;
        let script = "echo ready; exec tail -f /dev/null";
        let mut terminal = Terminal::start(Path::new("/bin/sh"), &["-c", script], &[]);
        terminal.expect("ready");
        terminal.type_text("\x03");
        assert_eq!(terminal.finish().signal(), Some(2));
    }
}
