//! Capture files, pcap and pcapng: bytes to blocks and back.
//!
//! [`ng`] and [`classic`] append whole blocks to a vector, [`read`] parses any capture file
//! block by block, [`run`] iterates over packets that this crate wrote. Nothing here opens a file or
//! asks for the time: bytes and time stamps are arguments, times are nanoseconds since 1970 UTC.
//! Output is little-endian. Readers accept any bytes without a panic.
//! See draft-ietf-opsawg-pcapng and draft-ietf-opsawg-pcap.

#![forbid(unsafe_code)]

pub mod classic;
mod error;
pub mod ng;
pub mod read;
pub mod run;

pub use error::{Error, Result};

/// Number of an interface in its section of a file; the first described has number 0.
pub type InterfaceId = u32;

/// Maximum bytes of one packet, 256 MiB: larger ones are not written, and refused when read.
pub const MOST_DATA: usize = 1 << 28;

/// Bytes of padding after `len` bytes, up to the next multiple of 4.
const fn filling(len: usize) -> usize {
    len.wrapping_neg() & 3
}

#[cfg(test)]
extern crate self as netloom_pcap;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
