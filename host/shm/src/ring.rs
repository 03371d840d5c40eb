//! Rings: frames from one port to another, through memory that only the sender writes.
//!
//! A [`Writer`] creates the memory, and becomes [`Outgoing`] with the receiver's inbox and the
//! edge's bell; a [`Reader`] is the other end. Frames are passed with their virtio-net header in
//! front. Neither end trusts the other: invalid content is reported as `Corrupt`, and the edge must
//! then be closed. Frames are not interpreted here. Specification: `docs/abi/switch-memory.md`;
//! [`crate::index`] has the order of accesses.

mod copy;
mod reader;
mod writer;

const _: () = assert!(crate::index::SLOT == crate::layout::ring::SLOT as u64);

pub use reader::{Reader, Taken};
pub use writer::{Outgoing, Pushed, Writer};
