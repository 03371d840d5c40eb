//! Rings: frames from one port to another, through memory that the sender alone writes.
//!
//! A [`Writer`] makes the memory, and becomes [`Outgoing`] with the receiver's inbox and the edge's
//! bell; a [`Reader`] is the other end. A frame is given and taken with its virtio-net header in
//! front. Neither end believes the other: what cannot be is told as `Corrupt`, whereupon the edge is
//! to be closed. What frames mean is not looked at here. Specification:
//! `docs/abi/switch-memory.md`; the order of accesses is in [`crate::index`].

mod copy;
mod reader;
mod writer;

const _: () = assert!(crate::index::SLOT == crate::layout::ring::SLOT as u64);

pub use reader::{Reader, Taken};
pub use writer::{Outgoing, Pushed, Writer};
