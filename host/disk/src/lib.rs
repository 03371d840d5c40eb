//! Large files written past the page cache, in order.
//!
//! A [`Pool`] gives out [`Buffer`]s, bounded memory that storage can read without a copy; a [`File`]
//! takes them, filled, and writes them by the best way that the file system and the kernel allow:
//! io_uring with O_DIRECT, pwrite with O_DIRECT, or pwrite through the page cache. It knows nothing
//! of what it writes but where chunks end.
//!
//! Invariants: at most one write of a file is under way, so no byte is in the file before those in
//! front of it, and its size never covers a byte that was not written; a killed process leaves a
//! prefix (see [`File`]). A file has one writer ([`Error::Busy`]). What could not be written stays queued, is told, and can be tried again.

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
pub use target::{Direct, How, Options};

/// What chunks must be a multiple of to be written past the page cache, and what [`Buffer`]s are
/// aligned to, in bytes: no smaller than the logical block of storage in use.
pub const BLOCK: usize = 4096;

#[cfg(test)]
extern crate self as netloom_disk;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
