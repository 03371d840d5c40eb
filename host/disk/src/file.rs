//! A file that grows chunk by chunk, in order.
//!
//! Only one write is in flight at any time, and it ends before the next begins. With O_DIRECT a file
//! system sets the new size only after it has stored the whole write, so the size moves from the end of
//! one chunk to the end of a later one, even if a process is killed meanwhile. Queue depth comes not
//! from several writes but from one write of several queued chunks, which the block layer splits and
//! keeps in flight together; on ext4 and XFS, writes that extend a file exclude each other anyway.
//!
//! Invariants: the file holds `written` bytes of whole chunks, then `part` bytes of the first
//! queued chunk; `part` is 0 unless a limit has cut a write short.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use netloom_sys::Failure;
use rustix::io::Errno;

use crate::chunk::{Chunk, slices};
use crate::ring::Outcome;
use crate::target::{How, Options, Target, go_buffered};
use crate::{BLOCK, Buffer, Error, Result, lock};

/// Most pieces of one write; the kernel allows 1024 (`UIO_MAXIOV`).
const PIECES: usize = 256;

/// A regular file, written from its start to its end.
///
/// **A process killed** at any moment leaves a prefix of the data written, never a byte that was
/// not. Past the page cache the prefix consists of whole chunks: the kernel finishes a write that
/// has begun. Two things can cut the last chunk: its own end, if it is not block-aligned (see
/// [`File::write`]), and a limit or a full disk that cut the write short, until this process
/// notices an instant later. Through the page cache (see [`File::how`]) a killed process's write
/// stops in the middle of a chunk, at a page boundary.
///
/// A file dropped without [`File::finish`] keeps what is written and loses what is queued. One that
/// has no name yet is gone.
///
/// **No other process writes it**: it is locked (flock(2)) until it is closed, and creating a
/// locked file gives [`Error::Busy`].
///
/// A write beyond `RLIMIT_FSIZE` raises SIGXFSZ, which ends a process that does not ignore it.
pub struct File {
    path: PathBuf,
    target: Target,
    gather: usize,
    /// Waiting chunks, without those that the ring is writing.
    queue: VecDeque<Chunk>,
    /// Bytes in `queue` and in the ring, including those that `part` counts.
    queued: u64,
    written: u64,
    part: usize,
    /// Chunks of the write in flight, or of the last one.
    batched: usize,
    /// The last write of several chunks was refused: the next one takes a single chunk.
    single: bool,
    closed: bool,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("File");
        shown.field("path", &self.path).field("how", &self.target.how);
        shown.field("written", &self.written).field("queued", &self.queued).finish()
    }
}

impl File {
    /// Creates the file, or empties an existing regular file; see [`Options::late`].
    ///
    /// # Errors
    /// [`Error::Refused`] for anything but a regular file, including a symbolic link;
    /// [`Error::Failed`] if the kernel refuses. A slower way of writing is not an error: see
    /// [`File::how`].
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<File> {
        let path = path.as_ref().to_owned();
        let target = Target::create(&path, options)?;
        Ok(File {
            path,
            target,
            gather: options.gather.max(options.chunk),
            queue: VecDeque::new(),
            queued: 0,
            written: 0,
            part: 0,
            batched: 0,
            single: false,
            closed: false,
        })
    }

    /// Queues the first `len` bytes of a buffer and writes what can be written now. With io_uring it
    /// waits only while more than twice [`Options::gather`] is queued; otherwise until all is written.
    ///
    /// `len` should be a multiple of [`BLOCK`](crate::BLOCK) except in the last chunk: after any
    /// other length the file continues through the page cache.
    ///
    /// # Errors
    /// [`Error::Length`]: nothing was queued. All others: the chunk **is** queued behind the
    /// earlier ones, and each later call tries again; [`File::take_back`] gives up.
    pub fn write(&mut self, buffer: Buffer, len: usize) -> Result<()> {
        if len > buffer.len() {
            return Err(Error::Length { path: self.path.clone(), len, holds: buffer.len() });
        }
        if len > 0 {
            self.queued += len as u64;
            self.queue.push_back(Chunk { buffer, len });
        }
        self.pump(2 * self.gather as u64)
    }

    /// Accounts for finished writes, starts the next one, and does not wait for io_uring. Returns
    /// [`File::written`].
    ///
    /// # Errors
    /// As [`File::write`].
    pub fn reap(&mut self) -> Result<u64> {
        self.pump(u64::MAX)?;
        Ok(self.written)
    }

    /// Waits until everything queued is written.
    ///
    /// # Errors
    /// As [`File::write`].
    pub fn drain(&mut self) -> Result<()> {
        self.pump(0)
    }

    /// Bytes of whole chunks known to be in the file.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes given and not yet known to be in the file.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Whether the file has its name, see [`Options::late`].
    pub fn is_named(&self) -> bool {
        self.target.named
    }

    /// How the file is written. This may change: a file system can refuse at the first write.
    pub fn how(&self) -> &How {
        &self.target.how
    }

    /// Keeps the file locked against other writers while the returned descriptor is open, even after this
    /// value is dropped.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn hold(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.target.fd, 0)?)
    }

    /// Gives up the unwritten chunks and returns them, in order. The file ends where they would begin.
    ///
    /// # Errors
    /// The file could not be truncated there; nothing is returned.
    pub fn take_back(&mut self) -> Result<Vec<Chunk>> {
        // A failed write is not an error here: its chunks are given back.
        match self.target.ring.as_mut().map(|ring| ring.landed(true)) {
            None | Some(Ok(None)) => {}
            Some(Ok(Some((chunks, outcome)))) => {
                self.requeue(chunks);
                drop(self.settle(outcome));
            }
            // The kernel has not accepted it: the ring has its chunks.
            Some(Err(source)) => drop(self.leave_ring(&source)),
        }
        self.cut_part()?;
        self.queued = 0;
        Ok(std::mem::take(&mut self.queue).into())
    }

    /// Writes everything queued, releases unused preallocated space, and returns the file's length;
    /// `fsync` waits until it is on storage.
    ///
    /// # Errors
    /// As [`File::write`]; unwritten data is then lost, and the file ends before it. To keep it,
    /// call [`File::drain`] first.
    pub fn finish(mut self, fsync: bool) -> Result<u64> {
        self.drain()?;
        self.cut("set length")?;
        self.name()?;
        if fsync {
            let synced = rustix::fs::fsync(&self.target.fd);
            synced.map_err(|source| self.failed("wait for storage", source))?;
        }
        self.closed = true;
        Ok(self.written)
    }

    /// Writes, and waits until at most `most` bytes are queued.
    fn pump(&mut self, most: u64) -> Result<()> {
        loop {
            let wait = self.queued > most;
            if let Some(ring) = &mut self.target.ring
                && ring.busy()
            {
                match ring.landed(wait) {
                    Ok(None) => return Ok(()),
                    Ok(Some((chunks, outcome))) => {
                        self.requeue(chunks);
                        self.settle(outcome)?;
                    }
                    Err(source) => self.leave_ring(&source)?,
                }
            }
            if self.queue.is_empty() {
                return Ok(());
            }
            self.start()?;
        }
    }

    /// Begins the next write; without a ring it also ends here.
    fn start(&mut self) -> Result<()> {
        let (count, bytes) = self.batch();
        if bytes == 0 {
            return self.leave_direct(&"a chunk ended off a block's edge");
        }
        self.batched = count;
        let (skip, offset) = (self.part, self.written + self.part as u64);
        let fd = self.target.fd.as_fd();
        let Some(ring) = &mut self.target.ring else {
            let pieces = slices(&self.queue, skip, bytes);
            let pieces: Vec<IoSlice<'_>> = pieces.into_iter().map(IoSlice::new).collect();
            let outcome = rustix::io::pwritev(fd, &pieces, offset);
            return self.settle(outcome);
        };
        let later = self.queue.split_off(count);
        let now = std::mem::replace(&mut self.queue, later);
        match ring.start(fd, now, skip, bytes, offset) {
            Ok(()) => Ok(()),
            Err(source) => self.leave_ring(&source),
        }
    }

    /// Chunks and bytes of the next write; 0 bytes if the rest of a chunk cannot be written past
    /// the page cache.
    fn batch(&self) -> (usize, usize) {
        let mut lengths = self.queue.iter().map(|chunk| chunk.len);
        let first = lengths.next().unwrap_or(0).saturating_sub(self.part);
        if !self.target.how.direct {
            return (1, first);
        }
        if !first.is_multiple_of(BLOCK) || self.single {
            return (1, first - first % BLOCK);
        }
        let (mut count, mut bytes) = (1, first);
        for len in lengths.take(PIECES - 1) {
            if !len.is_multiple_of(BLOCK) || bytes + len > self.gather {
                break;
            }
            (count, bytes) = (count + 1, bytes + len);
        }
        (count, bytes)
    }

    /// Accounts for the end of the write whose chunks are first in the queue.
    fn settle(&mut self, outcome: Outcome) -> Result<()> {
        let refused = match outcome {
            Ok(0) => Errno::IO,
            Ok(count) => {
                self.single = false;
                self.advance(count);
                return if self.written > 0 { self.name() } else { Ok(()) };
            }
            // Not begun: interrupted by a signal, or the submitting thread has ended.
            Err(Errno::INTR | Errno::CANCELED) => return Ok(()),
            Err(refused) => refused,
        };
        let unfit = matches!(refused, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS);
        if unfit && self.target.ring.is_some() {
            return self.leave_ring(&refused);
        }
        if unfit && self.target.how.direct {
            return self.leave_direct(&refused);
        }
        if self.batched > 1 {
            // Some of the chunks may fit, and a single one fails for its own reason.
            self.single = true;
            return Ok(());
        }
        self.cut_part()?;
        Err(self.refused(refused))
    }

    /// Drops the chunks that `count` more bytes in the file complete.
    fn advance(&mut self, count: usize) {
        self.part += count;
        while let Some(chunk) = self.queue.front().filter(|chunk| chunk.len <= self.part) {
            self.part -= chunk.len;
            self.written += chunk.len as u64;
            self.queued -= chunk.len as u64;
            self.queue.pop_front();
        }
        if self.target.how.direct {
            // The rest is written again from a block boundary.
            self.part -= self.part % BLOCK;
        }
    }

    /// Puts chunks taken back from the ring before later ones.
    fn requeue(&mut self, mut chunks: VecDeque<Chunk>) {
        chunks.append(&mut self.queue);
        self.queue = chunks;
    }

    /// Continues without io_uring.
    fn leave_ring(&mut self, reason: &dyn std::fmt::Display) -> Result<()> {
        let Some(ring) = self.target.ring.take() else { return Ok(()) };
        self.target.how.uring = false;
        self.target.how.lacks("io_uring", reason);
        let (chunks, outcome) = ring.end();
        self.requeue(chunks);
        outcome.map_or(Ok(()), |outcome| self.settle(outcome))
    }

    /// Continues through the page cache.
    fn leave_direct(&mut self, reason: &dyn std::fmt::Display) -> Result<()> {
        let how = &mut self.target.how;
        how.lacks("O_DIRECT", reason);
        (how.direct, how.uring) = (false, false);
        // No write is in flight when this is called.
        self.target.ring = None;
        let path = &self.path;
        go_buffered(&self.target.fd)
            .map_err(|e| Failure::path(path, "go back to the page cache", e).into())
    }

    /// Links the file to its path, if it has no name yet.
    fn name(&mut self) -> Result<()> {
        if self.target.named {
            return Ok(());
        }
        self.target.name(&self.path).map_err(|source| {
            // Another process may have been faster.
            lock::check_free(&self.path).err().unwrap_or_else(|| self.failed("name", source))
        })
    }

    /// Truncates the part of a chunk that a write cut short has left.
    fn cut_part(&mut self) -> Result<()> {
        if self.part > 0 {
            self.cut("take away a part of a chunk")?;
            self.part = 0;
        }
        Ok(())
    }

    fn cut(&self, operation: &'static str) -> Result<()> {
        let cut = rustix::fs::ftruncate(&self.target.fd, self.written);
        cut.map_err(|source| self.failed(operation, source))
    }

    fn failed(&self, operation: &'static str, source: Errno) -> Error {
        Failure::path(&self.path, operation, source).into()
    }

    fn refused(&self, source: Errno) -> Error {
        let (path, written) = (self.path.clone(), self.written);
        match source {
            Errno::NOSPC | Errno::DQUOT => Error::Full { path, written },
            Errno::FBIG => Error::Limit { path, written },
            source => Error::Write { path, written, source: io::Error::from(source) },
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        // Waits for the write in flight, and leaves whole chunks; nobody is left to report to.
        drop(self.take_back());
        drop(self.cut("set length"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn chunks_that_the_kernel_has_not_accepted_are_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(folder.path().join("file"), &Options::default()).unwrap();
        let target = &mut file.target;
        let Some(ring) = &mut target.ring else { netloom_kit::lacks!("uring", "no io_uring here") };
        let buffer = Pool::new(4096, 1 << 20).take().unwrap();
        // As after a submission that a signal has interrupted.
        ring.break_off();
        let chunk = Chunk { len: buffer.len(), buffer };
        drop(ring.start(target.fd.as_fd(), [chunk].into(), 0, 4096, 0));
        assert!(ring.busy());
        file.queued = 4096;
        let back = file.take_back().unwrap();
        assert_eq!((back.len(), file.queued(), file.how().uring), (1, 0, false));
    }
}
