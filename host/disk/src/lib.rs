//! Large files written past the page cache, in order.
//!
//! A [`Pool`] gives out [`Buffer`]s: bounded memory that storage reads without a copy. A [`File`]
//! takes filled buffers and writes them by the best way that the file system and the kernel allow:
//! io_uring with O_DIRECT, pwrite with O_DIRECT, or pwrite through the page cache. Of the content
//! it knows only where chunks end.
//!
//! Invariants: a file has at most one write in flight, so no byte is in the file before those in front of it,
//! and its size never covers an unwritten byte; a killed process leaves a prefix (see [`File`]). A file has
//! one writer ([`Error::Busy`]). Data that could not be written stays queued, is reported, and can be tried
//! again.

mod chunk;
mod error;
mod file;
mod lock;
mod pool;
mod ring;
mod target;

pub use chunk::Chunk;
pub use error::{Error, Result};
pub use file::File;
pub use lock::{check_free, lock};
pub use pool::{Buffer, Pool};
pub use ring::io_uring_supported;
pub use target::{Direct, How, Options};

/// Chunks must be a multiple of this to be written past the page cache, and [`Buffer`]s are aligned
/// to it, in bytes: at least the logical block size of storage in use.
pub const BLOCK: usize = 4096;

#[cfg(test)]
extern crate self as netloom_disk;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
