//! Supervises a running capture: when it ends, how much memory it may use, and the statistics file
//! of each interface.
//!
//! A line of a statistics file covers one second: the time (Unix, seconds), Gb/s of captured frames
//! without FCS, the number of these frames, and the number of lost ones, for any reason. The last
//! line may cover less than a second; the last two columns add up to the ledger. A failure to write
//! a line does not end a capture.

use netloom_sys::{Failure, clock};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::Result;
use crate::ledger::Ledger;
use crate::shared::{End, Shared};

/// Interval of checks.
const LOOK: Duration = Duration::from_millis(100);
/// The time that a line covers.
const SECOND: Duration = Duration::from_secs(1);
/// The memory always allowed, in bytes.
const LEAST: u64 = 64 << 20;
/// An output stall to survive at the highest rate seen, in seconds.
const STALL: f64 = 2.0;

/// The supervising thread.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    stop: Option<OwnedFd>,
    duration: Option<Duration>,
    memory: u64,
    files: Vec<Option<StatisticsFile>>,
    filled: u64,
    looked: Instant,
    /// Bytes of memory allowed at present.
    allowed: u64,
}

impl Keeper {
    /// `statistics` has the file of each interface, which is created, or truncated if it exists.
    pub(crate) fn new(
        shared: Arc<Shared>,
        stop: Option<OwnedFd>,
        duration: Option<Duration>,
        memory: u64,
        statistics: Vec<Option<PathBuf>>,
    ) -> Result<Keeper> {
        let make = |path: Option<PathBuf>| path.map(StatisticsFile::create).transpose();
        let files = statistics.into_iter().map(make).collect::<Result<_>>()?;
        let (looked, allowed) = (Instant::now(), least(&shared, memory));
        shared.pool.set_most(allowed);
        Ok(Keeper { shared, stop, duration, memory, files, filled: 0, looked, allowed })
    }

    /// Supervises the capture until everything is written.
    pub(crate) fn run(mut self) {
        let mut line = Instant::now() + SECOND;
        while !self.wait(line) {
            self.look();
            if Instant::now() >= line {
                // Not from now on: lines stay a second apart
                // on average, however late this thread is.
                line += SECOND;
                self.write_lines();
            }
        }
        self.write_lines();
    }

    /// Waits until something is due; returns whether everything is written.
    fn wait(&self, line: Instant) -> bool {
        let mut most = LOOK.min(line.saturating_duration_since(Instant::now()));
        if let Some(duration) = self.duration {
            let left = duration.saturating_sub(self.shared.started.elapsed());
            most = if self.shared.is_stopping() { most } else { most.min(left) };
        }
        let Some(stop) = self.stop.as_ref().filter(|_| !self.shared.is_stopping()) else {
            return self.shared.wait_over(most);
        };
        let mut set = [PollFd::new(stop, PollFlags::IN)];
        let timeout = Timespec::try_from(most).ok();
        if rustix::event::poll(&mut set, timeout.as_ref()) == Ok(1) {
            self.shared.end(End::Stopped);
        }
        self.shared.wait_over(Duration::ZERO)
    }

    fn look(&mut self) {
        if self.duration.is_some_and(|duration| self.shared.started.elapsed() >= duration) {
            self.shared.end(End::Duration);
        }
        let filled = self.filled();
        let elapsed = self.looked.elapsed().as_secs_f64();
        // Over a shorter time a single chunk would look like a high rate.
        if elapsed >= LOOK.as_secs_f64() / 2.0 {
            #[expect(clippy::cast_precision_loss, reason = "a rate, to be rounded")]
            let needed = (filled - self.filled) as f64 / elapsed * STALL;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "not negative, and what does not fit becomes the most"
            )]
            let needed = needed as u64;
            if needed > self.allowed {
                self.allowed = needed.min(self.memory).max(self.allowed);
                self.shared.pool.set_most(self.allowed);
            }
            (self.filled, self.looked) = (filled, Instant::now());
        }
    }

    /// Bytes put into memory so far, in total.
    fn filled(&self) -> u64 {
        let slots = self.shared.accounts.iter().flat_map(|account| &account.slots);
        slots.map(|slot| slot.filled.load(Ordering::Relaxed)).sum()
    }

    fn write_lines(&mut self) {
        for (file, account) in self.files.iter_mut().zip(&self.shared.accounts) {
            if let Some(file) = file {
                file.write(account.ledger());
            }
        }
    }
}

/// The memory a capture is always allowed: some for each of its threads, and for frames held until
/// those of other interfaces have come.
fn least(shared: &Shared, memory: u64) -> u64 {
    let threads: usize = shared.accounts.iter().map(|account| account.slots.len()).sum();
    let chunks = (2 * threads + 4) * shared.chunk;
    let least = if shared.merges { 4 * LEAST } else { LEAST };
    (chunks as u64).max(least).min(memory.max(chunks as u64))
}

/// A file with one line per second.
#[derive(Debug)]
struct StatisticsFile {
    file: File,
    since: Instant,
    before: Ledger,
}

impl StatisticsFile {
    fn create(path: PathBuf) -> Result<StatisticsFile> {
        let object = || path.display().to_string();
        let mut how = File::options();
        let file = how.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|e| Failure::new(object(), "create", e))?;
        netloom_disk::lock(&file, &path)?;
        // Emptied only now that it is locked: another
        // capture may be writing it. A pipe has no length.
        if file.metadata().is_ok_and(|found| found.is_file()) {
            file.set_len(0).map_err(|e| Failure::new(object(), "empty", e))?;
        }
        Ok(StatisticsFile { file, since: Instant::now(), before: Ledger::default() })
    }

    fn write(&mut self, now: Ledger) {
        let text = line(clock::realtime(), self.since.elapsed(), &self.before, &now);
        // There is nobody to report to, and the next line may succeed.
        let _ = self.file.write_all(text.as_bytes());
        (self.since, self.before) = (Instant::now(), now);
    }
}

/// The line for the time between two ledgers.
fn line(time_ns: u64, elapsed: Duration, before: &Ledger, now: &Ledger) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a rate, to be rounded")]
    let bits = (now.bytes - before.bytes) as f64 * 8.0;
    let rate = bits / elapsed.as_secs_f64().max(1e-9) / 1e9;
    let received = now.captured - before.captured;
    let lost = now.lost.total().saturating_sub(before.lost.total());
    format!("{} {rate:.6} {received} {lost}\n", time_ns / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Lost;

    #[test]
    fn a_line_tells_of_what_happened_since_the_one_before() {
        let lost = Lost { ring: 3, memory: 2, disk: 1 };
        let before = Ledger { captured: 10, bytes: 1000, lost, ..Ledger::default() };
        let lost = Lost { ring: 4, ..lost };
        let now = Ledger { captured: 25, bytes: 125_001_000, lost, ..before };
        let text = line(1_795_277_115_999_999_999, Duration::from_millis(500), &before, &now);
        assert_eq!(text, "1795277115 2.000000 15 1\n");
    }
}
