//! Recordings as bytes: a packet is stored once, and each further link that it passed is a sighting.
//!
//! A recording is a series of segments. A segment is a pcapng file ([`Segment`] writes it, [`blocks`] reads it): what is
//! stored is an ordinary packet, which every program reads; head and sightings are blocks for local use, which readers
//! skip. [`Index`] says which parts of a segment can hold a packet of some time, link, address or flow; it can be made
//! again from the segment at any time ([`Index::of`]). Nothing here opens a file or asks for the time.
//!
//! Invariants: a segment needs no other one. Every prefix of a segment is readable up to its last whole block. A frame
//! read back is the frame that was recorded, byte for byte. Readers accept any bytes without a panic.

#![forbid(unsafe_code)]

mod block;
mod filter;
mod flow;
mod index;
mod segment;
mod summary;

pub use block::{Block, Blocks, Head, Seen, blocks};
pub use flow::{Flow, Key, link_key, node_key, pair_key, service_key};
pub use index::{Brief, Group, Index};
pub use segment::{Kept, Segment};
pub use summary::summary;

/// A refused index or block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index is not one, is of another version, or is damaged.
    #[error("index: {0}")]
    Index(&'static str),
    /// A sighting names no packet of its segment, or one of another length.
    #[error("sighting at byte {at}: {what}")]
    Sighting {
        /// Where its block begins.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// The result of reading.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests;
