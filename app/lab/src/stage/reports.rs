//! Reports of inits while they are made: one line each, `ID ok` or the failure.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use netloom_model::plan::NodeId;
use netloom_sys::process;

use crate::{Error, Result};

/// The inits' reports, line by line.
pub(crate) struct Reports<'a> {
    pipe: &'a OwnedFd,
    partial: Vec<u8>,
    pub(crate) count: usize,
    /// Which inits have reported.
    pub(crate) from: BTreeSet<NodeId>,
}

impl<'a> Reports<'a> {
    pub(crate) fn new(pipe: &'a OwnedFd) -> Reports<'a> {
        Reports { pipe, partial: Vec::new(), count: 0, from: BTreeSet::new() }
    }

    /// Takes the reports that have arrived.
    pub(crate) fn take_ready(
        &mut self,
        each: impl FnMut(NodeId, &str) -> Result<()>,
    ) -> Result<()> {
        self.wait(Duration::ZERO, each).map(drop)
    }

    /// Waits for reports; `false` if none arrived in time.
    pub(crate) fn wait(
        &mut self,
        timeout: Duration,
        mut each: impl FnMut(NodeId, &str) -> Result<()>,
    ) -> Result<bool> {
        if !process::wait_readable(self.pipe, timeout) {
            return Ok(false);
        }
        let mut buffer = [0u8; 64 << 10];
        let n = rustix::io::read(self.pipe, &mut buffer)
            .map_err(Error::at("reports of inits", "read"))?;
        self.partial.extend_from_slice(&buffer[..n]);
        while let Some(end) = self.partial.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if let Some((index, text)) = line.trim_end().split_once(' ') {
                let index = index.parse().map_or(NodeId::CORE, NodeId::new);
                self.count += 1;
                self.from.insert(index);
                each(index, text)?;
            }
        }
        Ok(n > 0)
    }
}

/// Discards the rest of old reports, so that they are not taken for new ones.
pub(crate) fn forget_reports(pipe: &OwnedFd) {
    let mut file = match pipe.try_clone() {
        Ok(fd) => std::fs::File::from(fd),
        Err(_) => return,
    };
    while process::wait_readable(pipe, Duration::ZERO) {
        let mut buffer = [0u8; 4096];
        if !matches!(file.read(&mut buffer), Ok(n) if n > 0) {
            return;
        }
    }
}
