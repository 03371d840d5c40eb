//! Files: one, or a series of which the oldest may be removed.
//!
//! Every file is complete: head, chunks, counters. In pcapng each of these is padded to the next
//! storage block, so all writes bypass the page cache and a file cut between two of them is valid;
//! it gets its name together with its head. Frames count as written when they are in the file. A
//! lock gives a file a single writer, and a series too: the previous file stays locked until the
//! next exists. A file to be removed has lost its name when the next one begins; its space is freed
//! meanwhile, since some file systems take long for that.

use netloom_sys::{Failure, clock};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use netloom_disk::{BLOCK, Direct, File, How, Options, Pool};
use netloom_pcap::ng;
use rustix::fs::{Mode, OFlags};

use super::{Made, Output, Refused};
use crate::filler::LIVE;
use crate::head::Encoder;
use crate::queue::{Chunk, Share};
use crate::rotation::{self, Rotation};
use crate::shared::Shared;
use crate::{Error, Result};

/// Size of buffers for heads and tails.
const SPARE: usize = 64 << 10;
/// How long after a period's end its frames may still be written.
const GRACE: Duration = LIVE.saturating_mul(2);

/// Options of file output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The file, or the base name of several.
    pub path: PathBuf,
    /// When a new file begins. [`Rotation::bytes`] is observed to within the length of a chunk.
    pub rotation: Rotation,
    /// How files are written; the chunk size is the capture's, and classic files always go through
    /// the page cache.
    pub disk: Options,
    /// Whether to wait until an ended file is on storage.
    pub fsync: bool,
    /// Whether a capture continues when the disk is full and space may return. Memory fills
    /// meanwhile, then frames are lost and counted as lost by the disk.
    pub wait_for_space: bool,
}

impl FileOptions {
    /// One file, by the fastest way.
    pub fn new(path: impl Into<PathBuf>) -> FileOptions {
        FileOptions {
            path: path.into(),
            rotation: Rotation::default(),
            disk: Options::default(),
            fsync: false,
            wait_for_space: false,
        }
    }
}

/// Frames handed to a file up to a position in it.
struct Flight {
    end: u64,
    shares: Vec<Share>,
}

/// The file being written.
struct Open {
    file: File,
    /// Bytes handed to it.
    length: u64,
    head: u64,
    epoch: u64,
    flight: VecDeque<Flight>,
    /// It has its tail.
    closing: bool,
}

/// Writes files.
pub(crate) struct Files {
    options: FileOptions,
    encoder: Encoder,
    shared: Arc<Shared>,
    spare: Pool,
    open: Option<Open>,
    /// A chunk without a file yet.
    waiting: Option<Chunk>,
    number: u64,
    kept: VecDeque<PathBuf>,
    removed: usize,
    /// Frees the space of a removed file.
    freeing: Option<JoinHandle<()>>,
    bytes: u64,
    how: Option<How>,
    /// The previous file's lock, until the next has its own.
    held: Option<OwnedFd>,
}

impl Files {
    /// Creates the first file.
    pub(crate) fn create(
        mut options: FileOptions,
        encoder: Encoder,
        shared: Arc<Shared>,
    ) -> Result<Files> {
        options.disk.chunk = shared.chunk;
        options.disk.late = true;
        if !encoder.is_ng() {
            // A classic file cannot be padded to the edges that direct I/O needs.
            options.disk.direct = Direct::Never;
        }
        let mut files = Files {
            options,
            encoder,
            shared,
            spare: Pool::new(SPARE, 64 << 20),
            open: None,
            waiting: None,
            number: 0,
            kept: VecDeque::new(),
            removed: 0,
            freeing: None,
            bytes: 0,
            how: None,
            held: None,
        };
        if files.options.rotation.is_any() {
            rotation::check_free(&files.options.path)?;
        }
        match files.begin(0) {
            // It continues when there is space, as later files do.
            Err(Refused::Full) if files.options.wait_for_space => {
                files.shared.full.store(true, Ordering::Relaxed);
            }
            Err(Refused::Failed(error)) => return Err(error),
            Err(Refused::Full | Refused::ReaderGone) => {
                let path = files.options.path.display().to_string();
                let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                return Err(Failure::new(path, "begin", full).into());
            }
            Ok(()) => {}
        }
        Ok(files)
    }

    /// Begins the next file.
    fn begin(&mut self, epoch: u64) -> Result<(), Refused> {
        self.remove_oldest();
        let path = self.next_path();
        let mut file = File::create(&path, &self.options.disk)?;
        // The space of a removed file may have come back since: one more attempt to reserve it.
        let short = self.options.disk.preallocate > 0 && !file.how().preallocated;
        if short && self.wait_freed() {
            drop(file);
            file = File::create(&path, &self.options.disk)?;
        }
        self.number += 1;
        // The new file has its own lock now.
        self.held = None;
        self.kept.push_back(path);
        let flight = VecDeque::new();
        self.open = Some(Open { file, length: 0, head: 0, epoch, flight, closing: false });
        let head = self.encoder.head();
        let written = self.write_aside(head);
        if let Some(open) = &mut self.open {
            open.head = open.length;
            written?;
            // From now on the path shows a file.
            open.file.drain()?;
        }
        Ok(())
    }

    /// Removes the files that the next one would make too many.
    fn remove_oldest(&mut self) {
        let Some(most) = self.options.rotation.files else { return };
        while self.kept.len() >= most.max(1)
            && let Some(oldest) = self.kept.pop_front()
        {
            if self.kept.is_empty() {
                // Its space must be freed.
                self.held = None;
            }
            self.remove(&oldest);
            self.removed += 1;
        }
    }

    /// The path of the next file; in a series, an unused one.
    fn next_path(&mut self) -> PathBuf {
        let base = &self.options.path;
        if !self.options.rotation.is_any() {
            return base.clone();
        }
        loop {
            let path = rotation::name(base, self.number + 1, clock::realtime());
            if path.symlink_metadata().is_err() {
                return path;
            }
            self.number += 1;
        }
    }

    /// Unlinks a file, and frees its space while others are written.
    fn remove(&mut self, path: &Path) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A file's space is freed with its last descriptor
        // (unlink(2)): by the thread, not by the unlink here.
        let held = rustix::fs::open(path, flags, Mode::empty());
        // Another process may have removed it.
        drop(std::fs::remove_file(path));
        self.wait_freed();
        let thread = std::thread::Builder::new().name("capture-free".to_owned());
        // Without a thread its space is freed here.
        self.freeing = thread.spawn(move || drop(held)).ok();
    }

    /// Waits until the space of removed files is freed; returns whether there were any.
    fn wait_freed(&mut self) -> bool {
        let freeing = self.freeing.take();
        freeing.is_some_and(|freeing| freeing.join().is_ok())
    }

    /// After a lack of space, tries once more by `again` when space was freed.
    fn unless_freed(
        &mut self,
        result: Result<(), Refused>,
        again: fn(&mut Files) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        match result {
            Err(Refused::Full) if self.wait_freed() => again(self),
            other => other,
        }
    }

    /// Continues with queued and waiting data, and begins a file when its time has come.
    fn step(&mut self) -> Result<(), Refused> {
        if let Some(open) = &mut self.open {
            let reaped = open.file.reap();
            settle(open, &self.shared);
            reaped?;
        }
        self.place()?;
        if self.is_over() {
            self.end()?;
        }
        if self.open.is_none() {
            // Its time has come, or there was no space before.
            self.begin(self.shared.epoch())?;
        }
        Ok(())
    }

    /// Writes the waiting chunk to the last file, and ends it.
    fn end_last(&mut self) -> Result<(), Refused> {
        self.place()?;
        self.end()
    }

    /// Ends the open file.
    fn end(&mut self) -> Result<(), Refused> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if !open.closing {
            open.closing = true;
            let tail = self.encoder.tail(&self.shared);
            self.write_aside(tail)?;
        }
        if let Some(open) = &mut self.open {
            let drained = open.file.drain();
            settle(open, &self.shared);
            drained?;
        }
        if let Some(open) = self.open.take() {
            self.how = Some(open.file.how().clone());
            // Without a descriptor, the series has no lock for a moment.
            self.held = open.file.hold().ok();
            self.bytes += open.file.finish(self.options.fsync)?;
        }
        Ok(())
    }

    /// Writes bytes other than chunks.
    fn write_aside(&mut self, mut bytes: Vec<u8>) -> Result<(), Refused> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if self.encoder.is_ng() {
            let to = padded(bytes.len());
            // The length is chosen so that there is no error.
            drop(ng::padding(&mut bytes, to));
        }
        let mut result = Ok(());
        for part in bytes.chunks(SPARE) {
            let Some(mut buffer) = self.spare.take() else {
                return Err(Error::Options { what: "no memory for a file's head" }.into());
            };
            if let Some(to) = buffer.get_mut(..part.len()) {
                to.copy_from_slice(part);
            }
            open.length += part.len() as u64;
            // Data refused for lack of space is kept, ahead of the later parts.
            result = open.file.write(buffer, part.len());
        }
        Ok(result?)
    }

    /// Writes the waiting chunk to a file.
    fn place(&mut self) -> Result<(), Refused> {
        let Some((length, epoch)) = self.waiting.as_ref().map(|c| (c.len, c.epoch)) else {
            return Ok(());
        };
        if self.is_due(length, epoch) {
            self.end()?;
        }
        if self.open.is_none() {
            self.begin(epoch.max(self.shared.epoch()))?;
        }
        let (Some(open), Some(mut chunk)) = (&mut self.open, self.waiting.take()) else {
            return Ok(());
        };
        let len = pack(&mut chunk, &mut self.encoder);
        open.length += len as u64;
        let Chunk { buffer, shares, .. } = chunk;
        open.flight.push_back(Flight { end: open.length, shares });
        let written = open.file.write(buffer, len);
        settle(open, &self.shared);
        Ok(written?)
    }

    /// Whether a chunk belongs in the next file.
    fn is_due(&self, length: usize, epoch: u64) -> bool {
        let Some(open) = &self.open else { return false };
        // An interface's statistics block has less than 128 bytes.
        let tail = self.shared.accounts.len() * 128;
        let with = open.length + padded(length) as u64 + padded(tail) as u64;
        let full = self.options.rotation.bytes.is_some_and(|most| with > most);
        open.closing || epoch > open.epoch || (full && open.length > open.head)
    }

    /// Whether the open file's period is over, and all its frames have come.
    fn is_over(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let late = self.shared.started.elapsed().saturating_sub(GRACE);
        self.options.rotation.epoch(late) > open.epoch
    }
}

impl Output for Files {
    fn write(&mut self, chunk: Chunk) -> Result<(), Refused> {
        self.waiting = Some(chunk);
        let result = self.place();
        self.unless_freed(result, Files::step)
    }

    fn go_on(&mut self) -> Result<(), Refused> {
        let result = self.step();
        self.unless_freed(result, Files::step)
    }

    fn finish(&mut self) -> Result<(), Refused> {
        let result = self.end_last();
        let result = self.unless_freed(result, Files::end_last);
        self.wait_freed();
        result
    }

    fn abandon(&mut self) {
        if let Some(chunk) = self.waiting.take() {
            self.shared.settle(&chunk.shares, false);
        }
        self.wait_freed();
        let Some(mut open) = self.open.take() else { return };
        // If it cannot be truncated, it keeps what it has.
        drop(open.file.take_back());
        settle(&mut open, &self.shared);
        for lost in &open.flight {
            self.shared.settle(&lost.shares, false);
        }
        self.how = Some(open.file.how().clone());
        if !open.file.is_named() {
            // It lacks even its head, and is removed with its name.
            self.kept.pop_back();
            return;
        }
        self.bytes += open.file.written();
        // Nothing is left to write.
        drop(open.file.finish(false));
    }

    fn made(&self) -> Made {
        Made {
            removed: self.removed,
            files: self.kept.iter().cloned().collect(),
            bytes: self.bytes,
            how: self.how.clone(),
        }
    }
}

/// Accounts for what is known to be in the file.
fn settle(open: &mut Open, shared: &Shared) {
    let written = open.file.written();
    while open.flight.front().is_some_and(|flight| flight.end <= written)
        && let Some(flight) = open.flight.pop_front()
    {
        shared.settle(&flight.shares, true);
    }
}

/// Converts a chunk to its form in the file, in the same memory; returns the number of bytes.
fn pack(chunk: &mut Chunk, encoder: &mut Encoder) -> usize {
    let len = chunk.len;
    if let Some(bytes) = encoder.convert(chunk.buffer.get(..len).unwrap_or_default()) {
        // A classic record is shorter than the block that it is made of.
        if let Some(place) = chunk.buffer.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        return bytes.len();
    }
    let (to, mut filling) = (padded(len), Vec::new());
    // The length is chosen so that there is no error.
    drop(ng::padding(&mut filling, to - len));
    if let Some(place) = chunk.buffer.get_mut(len..to) {
        place.copy_from_slice(&filling);
    }
    to
}

/// The next length that ends at an edge and that a padding block can reach.
fn padded(len: usize) -> usize {
    let edge = len.next_multiple_of(BLOCK);
    if edge - len != 0 && edge - len < ng::PADDING_LEAST { edge + BLOCK } else { edge }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_reaches_an_edge_from_every_length() {
        for len in (0..3 * BLOCK).step_by(4) {
            let (to, mut bytes) = (padded(len), vec![0; len]);
            ng::padding(&mut bytes, to).unwrap();
            assert!(to.is_multiple_of(BLOCK) && bytes.len() == to && to - len < BLOCK + 12);
        }
    }
}
