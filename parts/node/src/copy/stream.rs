//! Writes a file of a node into whatever the caller has open: a pipe, a terminal, a file.

use std::os::fd::AsFd;

use netloom_sys::lease;
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::{read, retry_on_intr, write};

use super::content::Meter;
use super::place::Given;
use super::{Bounds, fail};
use crate::Result;

/// Bytes a read.
const BLOCK: usize = 256 * 1024;

/// Writes the regular file at `from` to `to`, and returns the number of bytes.
pub(super) fn stream(from: &Given<'_>, to: impl AsFd, bounds: Bounds<'_>) -> Result<u64> {
    let is_file = |found| FileType::from_raw_mode(found) == FileType::RegularFile;
    // Opening a FIFO would wait for its writer, and opening a device may have any effect.
    let found = from.open(OFlags::PATH).map_err(fail(&from.shown, "open"))?;
    let stat = fstat(&found).map_err(fail(&from.shown, "open"))?;
    if !is_file(stat.st_mode) {
        let why = std::io::Error::other("only a regular file goes to standard output");
        return Err(fail(&from.shown, "copy")(why));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = lease::open_past(|| from.open(flags)).map_err(fail(&from.shown, "open"))?;
    let meter = Meter::new(bounds);
    let mut block = vec![0; BLOCK];
    let mut written: u64 = 0;
    loop {
        meter.go_on().map_err(|(operation, e)| fail(&from.shown, operation)(e))?;
        let count = retry_on_intr(|| read(&file, block.as_mut_slice()));
        let count = count.map_err(fail(&from.shown, "read"))?;
        if count == 0 {
            return Ok(written);
        }
        let more = u64::try_from(count).unwrap_or(u64::MAX);
        if bounds.max.is_some_and(|max| written.saturating_add(more) > max) {
            let why = std::io::Error::other("it is longer than --max allows");
            return Err(fail(&from.shown, "copy")(why));
        }
        let mut left = &block[..count];
        while !left.is_empty() {
            let done = retry_on_intr(|| write(&to, left));
            left = &left[done.map_err(fail("standard output", "write"))?..];
        }
        written += more;
    }
}
