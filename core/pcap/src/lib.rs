//! Capture files, pcap and pcapng: bytes to blocks and back.
//!
//! [`ng`] and [`classic`] append whole blocks to a vector, [`read`] takes any capture file apart
//! block by block, [`run`] goes over packets that this crate wrote. Nothing here opens a file or asks
//! for the time: bytes and time stamps come in as arguments, times are nanoseconds since 1970 UTC.
//! What is written is little-endian. Readers take any bytes without a panic.
//! See draft-ietf-opsawg-pcapng and draft-ietf-opsawg-pcap.

#![forbid(unsafe_code)]

pub mod classic;
mod error;
pub mod ng;
pub mod read;
pub mod run;

pub use error::{Error, Result};

/// Number of an interface in its section of a file: 0 is the one described first.
pub type InterfaceId = u32;

/// Most bytes of one packet, 256 MiB: more is not written, and refused when read.
pub const MOST_DATA: usize = 1 << 28;

/// Bytes of filling after `len` bytes, up to the next multiple of 4.
const fn filling(len: usize) -> usize {
    len.wrapping_neg() & 3
}

#[cfg(test)]
extern crate self as netloom_pcap;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
