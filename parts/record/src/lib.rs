//! A lab's recording on disk: a ring of segments (`netloom_sighting`), bounded, written by one process, read by any.
//!
//! [`Folder`] is where it is, [`Store`] writes it, [`search`] answers from it, also while it is written. A [`Store`] gets
//! frames as runs of packet blocks; who captures them is others' business, and so are processes and text for people.
//!
//! Invariants: one process writes a recording: it holds the lock of the folder. Together, files never have more bytes
//! than the store may keep. Every frame that was given to a store is stored, seen again, or dropped, and counted so. A
//! segment is never changed after its index is written, and an index is only ever a shortcut.

#![forbid(unsafe_code)]

mod error;
mod folder;
mod links;
mod question;
mod search;
mod start;
mod status;
mod store;
mod stored;

pub use error::{Error, Result};
pub use folder::{Folder, Segments};
pub use links::find_links;
pub use question::{Asked, Question};
pub use search::{Frame, Looked, search};
pub use status::{Books, Lost, Missing, Nodes, Status, Told, with_earlier};
pub use store::{About, Link, Store};

/// The least number of bytes that a recording may be bounded to.
pub const LEAST_KEEP: u64 = 4 << 20;

#[cfg(test)]
extern crate self as netloom_record;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
