//! Output of programs, line by line: into the log, and the last lines for reports.

use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Programs;
use crate::log::LINE_LIMIT;

/// How many of a program's last lines are kept for reports, and how much of each.
const LAST_LINES: usize = 8;
const LINE_TOLD: usize = 400;

impl Programs {
    /// Output descriptors to watch, with the program's number.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| Some((i, s.output.as_ref()?)))
    }

    /// Moves a program's output so far into the log.
    pub(crate) fn drain(&mut self, index: usize) {
        let mut buffer = [0u8; 16 << 10];
        loop {
            // One that is no longer wanted may have ended and gone since its output was seen.
            let output = self.slots.get(index).and_then(|slot| slot.output.as_ref());
            let Some(output) = output else { return };
            match rustix::io::read(output, &mut buffer) {
                Ok(0) => {
                    self.slots[index].output = None;
                    self.flush_partial(index);
                    return;
                }
                Ok(n) => self.take(index, &buffer[..n]),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Moves all programs' output so far into the log.
    pub(crate) fn drain_all(&mut self) {
        (0..self.slots.len()).for_each(|i| self.drain(i));
    }

    fn take(&mut self, index: usize, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.flush_line(index);
            } else {
                self.slots[index].partial.push(*byte);
                if self.slots[index].partial.len() >= LINE_LIMIT {
                    self.flush_line(index);
                }
            }
        }
    }

    pub(super) fn flush_partial(&mut self, index: usize) {
        if !self.slots[index].partial.is_empty() {
            self.flush_line(index);
        }
    }

    fn flush_line(&mut self, index: usize) {
        let line = std::mem::take(&mut self.slots[index].partial);
        self.write(index, &line);
    }

    pub(super) fn note(&mut self, index: usize, text: &str) {
        self.flush_partial(index);
        self.write(index, text.as_bytes());
    }

    /// Logs a line of a program's output.
    fn write(&mut self, index: usize, line: &[u8]) {
        let kept = &mut self.slots[index].last_lines;
        if kept.len() == LAST_LINES {
            kept.pop_front();
        }
        kept.push_back(String::from_utf8_lossy(&line[..line.len().min(LINE_TOLD)]).into_owned());
        self.log(index, line);
    }

    pub(super) fn log(&mut self, index: usize, line: &[u8]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(log) = &mut self.log {
            log.add(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), index, line);
        }
    }
}
