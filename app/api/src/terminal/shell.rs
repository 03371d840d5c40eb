//! The shell in a terminal: a child of this process on the inner side of a pseudo-terminal, whose outer side is read and written
//! without blocking (pty(7)).

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_sys::process::{self, Exit};
use netloom_sys::{Failure, terminal};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::own_child::OwnChild;

/// Bytes of output in one message at most.
const CHUNK: usize = 16 << 10;

/// Messages of output after the shell's end at most: the kernel keeps some 64 KiB, which may come in small pieces.
const MOST_CHUNKS: usize = 64;

/// How long a shell may take for its end after its terminal has gone.
const GRACE: Duration = Duration::from_secs(2);

/// What the page's terminal understands, as terminfo(5) calls it.
const TERM: &str = "xterm-256color";

/// What reading gave.
pub(super) enum Output {
    Bytes(Vec<u8>),
    /// No program has the terminal open any more.
    Over,
}

/// A running shell.
#[derive(Debug)]
pub(super) struct Shell {
    child: OwnChild,
    /// Readable when the child has ended.
    pidfd: AsyncFd<OwnedFd>,
    /// `None` once it is hung up.
    screen: Option<AsyncFd<OwnedFd>>,
}

impl Shell {
    /// Starts this program with these words and the node's name, in a terminal of this size.
    pub(super) fn start(
        words: &[OsString],
        node: &str,
        columns: u16,
        rows: u16,
    ) -> netloom_sys::Result<Shell> {
        let fail = |operation| move |e| Failure::new("terminal", operation, e);
        let (outer, inner) = terminal::pair()?;
        rustix::fs::fcntl_setfl(&outer, OFlags::NONBLOCK)
            .map_err(|e| fail("make non-blocking")(e.into()))?;
        tcsetwinsize(&inner, size(columns, rows)).map_err(|e| fail("set the size of")(e.into()))?;
        let screen = watched(outer, Interest::READABLE | Interest::WRITABLE)?;
        let side = || inner.try_clone().map(Stdio::from).map_err(fail("copy"));
        let mut command = Command::new("/proc/self/exe");
        command.args(words).arg(node).env("TERM", TERM).env("COLORTERM", "truecolor");
        command.stdin(side()?).stdout(side()?).stderr(side()?);
        let child = OwnChild::start(&mut command)?;
        let pid = Pid::from_raw(child.0.id().cast_signed());
        let unknown = || Failure::new("shell", "watch", Errno::SRCH);
        let pidfd = process::pidfd(pid.ok_or_else(unknown)?)?;
        Ok(Shell { child, pidfd: watched(pidfd, Interest::READABLE)?, screen: Some(screen) })
    }

    /// What is shown next.
    pub(super) async fn read(&self) -> Output {
        let Some(screen) = &self.screen else { return Output::Over };
        match screen.async_io(Interest::READABLE, |screen| Ok(chunk(screen)?)).await {
            Ok(bytes) if !bytes.is_empty() => Output::Bytes(bytes),
            // EIO: the last program that had it open has closed it.
            _ => Output::Over,
        }
    }

    /// What is there to be shown without waiting: no more than the kernel keeps, since others may go on writing.
    pub(super) fn rest(&self) -> Vec<Vec<u8>> {
        let chunks = self.screen.iter().flat_map(|screen| {
            std::iter::from_fn(|| chunk(screen.get_ref()).ok().filter(|bytes| !bytes.is_empty()))
        });
        chunks.take(MOST_CHUNKS).collect()
    }

    /// Types the beginning of this; its length.
    pub(super) async fn write(&self, bytes: &[u8]) -> usize {
        let Some(screen) = &self.screen else { return bytes.len() };
        let written = screen
            .async_io(Interest::WRITABLE, |screen| Ok(rustix::io::write(screen, bytes)?))
            .await;
        // A terminal without programs swallows what is typed.
        written.unwrap_or(bytes.len())
    }

    /// Sets the size; whether it is one.
    pub(super) fn resize(&self, columns: u16, rows: u16) -> bool {
        let Some(screen) = &self.screen else { return false };
        columns > 0 && rows > 0 && tcsetwinsize(screen.as_fd(), size(columns, rows)).is_ok()
    }

    /// Returns when the child has ended.
    pub(super) async fn ended(&self) {
        if let Ok(mut ready) = self.pidfd.readable().await {
            ready.retain_ready();
        }
    }

    /// The exit code of a child that has ended, as a shell gives it.
    pub(super) fn code(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        match self.child.0.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => code,
                (None, signal) => Exit::Signal(signal.unwrap_or_default()).shell_code(),
            },
            Err(_) => 1,
        }
    }

    /// Takes the terminal away, which programs hear of by SIGHUP; what does not end then is killed.
    pub(super) async fn hang_up(&mut self) {
        drop(self.screen.take());
        let _ = timeout(GRACE, self.ended()).await;
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for descriptors that are closed meanwhile: this one is owned"
)]
fn watched(fd: OwnedFd, interest: Interest) -> netloom_sys::Result<AsyncFd<OwnedFd>> {
    let watched = AsyncFd::with_interest(fd, interest);
    Ok(watched.map_err(Failure::of("terminal", "watch"))?)
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows.max(1), ws_col: columns.max(1), ws_xpixel: 0, ws_ypixel: 0 }
}

fn chunk(screen: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = vec![0; CHUNK];
    let length = rustix::io::read(screen, &mut bytes[..])?;
    bytes.truncate(length);
    Ok(bytes)
}
