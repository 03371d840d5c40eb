//! io_uring: one asynchronous write at a time.
//!
//! The ring owns the chunks of the write in flight and gives them back when it has ended, so nobody
//! can free or change memory that storage is reading. There are never two writes: that keeps a file
//! in order, whatever the kernel cancels when a process dies. Neither file nor buffers are
//! registered: a write is megabytes in huge pages, and looking up its file and few pages costs
//! nothing measurable.
//!
//! Specification: io_uring_enter(2).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use crate::chunk::Chunk;

/// How a write ended: the number of bytes written, or the error.
pub(crate) type Outcome = Result<usize, Errno>;

pub(crate) struct Ring {
    uring: IoUring,
    flight: Option<Flight>,
}

struct Flight {
    chunks: VecDeque<Chunk>,
    /// The vector that the kernel reads when the write is submitted.
    pieces: Vec<libc::iovec>,
}

// SAFETY: the pointers of `pieces` point into `chunks`, which move along and are `Send`.
unsafe impl Send for Flight {}
// SAFETY: a shared reference to it gives access to nothing.
unsafe impl Sync for Flight {}

/// Whether this process may write by io_uring; without it files are written by pwrite.
///
/// # Errors
/// The kernel's refusal.
pub fn io_uring_supported() -> io::Result<()> {
    Ring::open().map(drop)
}

impl Ring {
    pub(crate) fn open() -> io::Result<Ring> {
        Ok(Ring { uring: IoUring::builder().dontfork().build(2)?, flight: None })
    }

    /// Whether a write was started whose end is not known yet.
    pub(crate) fn busy(&self) -> bool {
        self.flight.is_some()
    }

    /// Starts writing `bytes` bytes of these chunks, after skipping the first `skip`, at `offset` of the
    /// file.
    /// After an error the write may be taken back with [`Ring::end`].
    pub(crate) fn start(
        &mut self,
        fd: BorrowedFd<'_>,
        chunks: VecDeque<Chunk>,
        skip: usize,
        bytes: usize,
        offset: u64,
    ) -> io::Result<()> {
        debug_assert!(self.flight.is_none());
        let flight = self.flight.insert(Flight { chunks, pieces: Vec::new() });
        flight.pieces = pieces(&flight.chunks, skip, bytes);
        let count = u32::try_from(flight.pieces.len()).map_err(io::Error::other)?;
        let target = types::Fd(fd.as_raw_fd());
        let entry = opcode::Writev::new(target, flight.pieces.as_ptr(), count).offset(offset);
        let entry = entry.build();
        // SAFETY: the entry points into `self.flight`, which stays until the kernel has reported
        // the end of the write, or has never seen it: see `landed`, `end` and `drop`.
        unsafe { self.uring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.submit(0)
    }

    /// The chunks of the write and how it ended; `None` if it is still in flight and `wait` is not
    /// set. An error means that the kernel has not accepted the write.
    pub(crate) fn landed(&mut self, wait: bool) -> io::Result<Option<(VecDeque<Chunk>, Outcome)>> {
        if self.flight.is_none() {
            return Ok(None);
        }
        loop {
            let ended = self.uring.completion().next();
            if let Some(ended) = ended {
                let chunks = self.flight.take().map(|flight| flight.chunks).unwrap_or_default();
                return Ok(Some((chunks, outcome(ended.result()))));
            }
            let taken = self.uring.submission().is_empty();
            if !wait && taken {
                return Ok(None);
            }
            match self.submit(usize::from(wait)) {
                Err(source) if !taken => return Err(source),
                // The kernel has accepted it and will finish it, even if it does not let us wait.
                Err(_) => std::thread::yield_now(),
                Ok(()) if !wait => return Ok(None),
                Ok(()) => (),
            }
        }
    }

    /// Ends the ring and gives back its chunks, with the outcome if the kernel had accepted the write.
    pub(crate) fn end(mut self) -> (VecDeque<Chunk>, Option<Outcome>) {
        if self.uring.submission().is_empty()
            && let Ok(Some((chunks, outcome))) = self.landed(true)
        {
            return (chunks, Some(outcome));
        }
        // An entry still in the submission queue is never submitted: the ring is closed now.
        (self.flight.take().map(|flight| flight.chunks).unwrap_or_default(), None)
    }

    /// From now on the kernel refuses what is submitted, since the descriptor does not belong to a ring.
    #[cfg(test)]
    pub(crate) fn break_off(&self) {
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: both are open descriptors of this process, and the ring's memory stays mapped.
        assert!(unsafe { libc::dup2(null.as_raw_fd(), self.uring.as_raw_fd()) } >= 0);
    }

    fn submit(&mut self, wait_for: usize) -> io::Result<()> {
        match self.uring.submit_and_wait(wait_for) {
            Err(source) if source.kind() != io::ErrorKind::Interrupted => Err(source),
            _ => Ok(()),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.busy() && self.uring.submission().is_empty() {
            // Storage uses the memory until the write has ended.
            drop(self.landed(true));
        }
    }
}

/// The addresses of `bytes` bytes of the chunks, after skipping the first `skip`.
fn pieces(chunks: &VecDeque<Chunk>, skip: usize, bytes: usize) -> Vec<libc::iovec> {
    let slices = crate::chunk::slices(chunks, skip, bytes);
    // The kernel only reads from them.
    let piece = |slice: &[u8]| libc::iovec {
        iov_base: slice.as_ptr().cast_mut().cast(),
        iov_len: slice.len(),
    };
    slices.into_iter().map(piece).collect()
}

fn outcome(result: i32) -> Outcome {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.saturating_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use std::os::fd::AsFd;

    fn chunks(pool: &Pool, count: u8) -> VecDeque<Chunk> {
        let chunk = |byte| {
            let mut buffer = pool.take().unwrap();
            buffer.fill(byte);
            Chunk { len: buffer.len(), buffer }
        };
        (0..count).map(chunk).collect()
    }

    #[test]
    fn chunks_come_back_with_the_outcome() {
        let Ok(mut ring) = Ring::open() else { netloom_kit::lacks!("uring", "no io_uring here") };
        let file = tempfile::tempfile().unwrap();
        let pool = Pool::new(4096, 1 << 20);
        ring.start(file.as_fd(), chunks(&pool, 3), 1, 3 * 4096 - 2, 5).unwrap();
        let (back, outcome) = ring.landed(true).unwrap().unwrap();
        assert_eq!((back.len(), outcome), (3, Ok(3 * 4096 - 2)));
        assert!(ring.landed(true).unwrap().is_none());
        assert_eq!(file.metadata().unwrap().len(), 5 + 3 * 4096 - 2);
    }

    #[test]
    fn a_refusal_is_the_outcome_and_an_ended_ring_keeps_nothing() {
        let Ok(mut ring) = Ring::open() else { netloom_kit::lacks!("uring", "no io_uring here") };
        let read_only = std::fs::File::open("/dev/null").unwrap();
        let pool = Pool::new(4096, 1 << 20);
        ring.start(read_only.as_fd(), chunks(&pool, 1), 0, 4096, 0).unwrap();
        let (back, outcome) = ring.end();
        assert_eq!((back.len(), outcome), (1, Some(Err(Errno::BADF))));
        drop(back);
        assert_eq!(pool.in_use_bytes(), 0);
    }

    #[test]
    fn a_dropped_ring_has_waited_for_its_write() {
        let Ok(mut ring) = Ring::open() else { netloom_kit::lacks!("uring", "no io_uring here") };
        let file = tempfile::tempfile().unwrap();
        let pool = Pool::new(4 << 20, 16 << 20);
        ring.start(file.as_fd(), chunks(&pool, 4), 0, 16 << 20, 0).unwrap();
        drop(ring);
        assert_eq!((file.metadata().unwrap().len(), pool.in_use_bytes()), (16 << 20, 0));
    }
}
