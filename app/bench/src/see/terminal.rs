//! `netloom top` in a pseudo-terminal that somebody reads.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::driver::Driver;

/// How long the first picture may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `top`, killed with its value.
pub(super) struct Top {
    child: Child,
    /// Bytes that it has drawn.
    drawn: Arc<AtomicU64>,
}

impl Top {
    /// Starts it on a lab in a terminal of this size, and waits for a picture.
    pub(super) fn start(driver: &Driver, lab: &str, size: (u16, u16)) -> Result<Top> {
        let (outer, inner) = netloom_sys::terminal::pair().context("make a terminal")?;
        let size = Winsize { ws_col: size.0, ws_row: size.1, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&inner, size).context("set a terminal's size")?;
        let end = || inner.try_clone().map(Stdio::from).context("duplicate a terminal");
        let mut command = driver.command();
        command.args(["top", lab]).env("TERM", "xterm");
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        let drawn = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&drawn);
        // Ends with the terminal's last user.
        std::thread::spawn(move || drain(File::from(outer), &counts));
        let mut top = Top { child, drawn };
        top.until(1000)?;
        Ok(top)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How much it has drawn.
    pub(super) fn drawn(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed)
    }

    fn until(&mut self, bytes: u64) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.drawn() < bytes {
            if let Some(status) = self.child.try_wait().context("wait for `netloom top`")? {
                bail!("netloom top: {status}");
            }
            if Instant::now() > end {
                bail!("netloom top has drawn {} bytes in {PATIENCE:?}", self.drawn());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // Both fail after its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(mut terminal: File, drawn: &AtomicU64) {
    let mut bytes = vec![0; 1 << 16];
    // EIO: nobody has the other side any more.
    while let Ok(count @ 1..) = terminal.read(&mut bytes) {
        drawn.fetch_add(count as u64, Ordering::Relaxed);
    }
}
