//! Output of programs, line by line: into the log, and the last lines for reports.

use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Programs;
use crate::log::LINE_LIMIT;

/// How many of a program's last lines are kept for reports, and how much of each.
const LAST_LINES: usize = 8;
const LINE_TOLD: usize = 400;

/// How much of a program's output is logged in one turn of the init.
const AT_ONCE: usize = 16 << 10;

impl Programs {
    /// Output descriptors to watch, with the program's number.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| Some((i, s.output.as_ref()?)))
    }

    /// Moves some of a program's output into the log, and returns how much. The rest waits for the next turn: a program
    /// that writes faster than its output is logged keeps the init from nothing else.
    pub(crate) fn drain(&mut self, index: usize) -> usize {
        let mut buffer = [0u8; AT_ONCE];
        // One that is no longer wanted may have ended and gone since its output was seen.
        let output = self.slots.get(index).and_then(|slot| slot.output.as_ref());
        let Some(output) = output else { return 0 };
        match rustix::io::read(output, &mut buffer) {
            Ok(0) => {
                self.slots[index].output = None;
                self.flush_partial(index);
                0
            }
            Ok(n) => {
                self.take(index, &buffer[..n]);
                n
            }
            // There is nothing, or the read was interrupted: it stays readable.
            Err(_) => 0,
        }
    }

    /// Moves a program's output so far into the log, but not what is written meanwhile: what it has started may still write.
    pub(super) fn drain_so_far(&mut self, index: usize) {
        let output = self.slots.get(index).and_then(|slot| slot.output.as_ref());
        let waiting = output.and_then(|output| rustix::io::ioctl_fionread(output).ok());
        let mut left = waiting.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        while left > 0 {
            match self.drain(index) {
                0 => return,
                n => left = left.saturating_sub(n),
            }
        }
    }

    /// Moves all programs' output so far into the log.
    pub(crate) fn drain_all(&mut self) {
        (0..self.slots.len()).for_each(|i| self.drain_so_far(i));
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

#[cfg(test)]
mod tests {
    use netloom_model::lab::Program;
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::getpid;

    use super::super::*;
    use super::*;

    /// A program that has filled its pipe, and goes on writing: the other end stays open.
    fn flooding() -> (Programs, OwnedFd, usize, [std::path::PathBuf; 2], tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("0"), folder.path().join("1")];
        let log = [0, 1].map(|n: usize| File::create(&paths[n]).unwrap());
        let run = vec![Program::once(vec!["yes".to_owned()])];
        let mut programs = Programs::new(run, vec![], vec![], vec![], Some(log));
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let mut wrote = 0;
        while let Ok(n) = rustix::io::write(&write, &[b"x".repeat(1023), b"\n".to_vec()].concat()) {
            wrote += n;
        }
        programs.slots[0].output = Some(read);
        programs.slots[0].pid = Some(getpid());
        (programs, write, wrote, paths, folder)
    }

    fn waiting(programs: &Programs) -> usize {
        let output = programs.slots[0].output.as_ref().unwrap();
        usize::try_from(rustix::io::ioctl_fionread(output).unwrap()).unwrap()
    }

    #[test]
    fn a_flood_takes_one_read_of_a_turn() {
        let (mut programs, _write, wrote, _paths, _folder) = flooding();
        assert!(wrote > AT_ONCE);
        assert_eq!(programs.drain(0), AT_ONCE);
        assert_eq!(waiting(&programs), wrote - AT_ONCE);
    }

    #[test]
    fn all_that_a_program_wrote_stands_in_the_log_before_its_end() {
        let (mut programs, _write, wrote, paths, _folder) = flooding();
        assert_eq!(programs.ended(getpid(), Exit::Code(0), Instant::now()), Some(None));
        assert_eq!(waiting(&programs), 0);
        let records = crate::log::read(&paths);
        assert_eq!(records.len(), wrote / 1024 + 1);
        assert!(records.last().unwrap().text.ends_with("exited 0"), "{:?}", records.last());
    }
}
