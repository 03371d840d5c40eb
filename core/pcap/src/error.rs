//! Errors of capture files, with their offsets.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a capture file cannot be read or written further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file ends inside a block. Everything before that was returned.
    #[error("capture file: cut short: the block at byte {at} is not whole")]
    Cut {
        /// Where the unfinished block begins.
        at: u64,
    },
    /// The first bytes belong to no known format.
    #[error("capture file: begins with {magic:02x?}: neither pcap nor pcapng")]
    Format {
        /// The first bytes.
        magic: [u8; 4],
    },
    /// An unknown version of the format.
    #[error("capture file: section at byte {at}: version {major}.{minor} is not known")]
    Version {
        /// Where the section or file header begins.
        at: u64,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// A block that violates the format.
    #[error("capture file: block at byte {at}, type {kind:#x}: {reason}")]
    Malformed {
        /// Where it begins.
        at: u64,
        /// Its type; 0 for a record of a classic file.
        kind: u32,
        /// What violates the format.
        reason: &'static str,
    },
    /// The source could not be read.
    #[error("capture file: read at byte {at}")]
    Read {
        /// How far the file was read.
        at: u64,
        /// The source's error.
        #[source]
        source: io::Error,
    },
    /// A gap that padding cannot fill.
    #[error(
        "padding: from {from} to {to} bytes: the gap must be a multiple of 4, and none or at least 12"
    )]
    Padding {
        /// Bytes present.
        from: usize,
        /// Bytes requested.
        to: usize,
    },
}
