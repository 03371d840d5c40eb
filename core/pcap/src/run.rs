//! Iterates over a run of packet blocks that [`crate::ng::packet`] or the capture program wrote.
//!
//! For merging, classic output and counting: no copy, no allocation, only little-endian enhanced packet
//! blocks, times in nanoseconds. The first block that is not a complete one of these ends the
//! run; [`Records::rest`] has the remaining bytes, which are empty if all blocks were valid.

use crate::{InterfaceId, filling, ng};

/// One packet block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The whole block, as it may be written to a file.
    pub bytes: &'a [u8],
    /// The interface it was caught at.
    pub interface: InterfaceId,
    /// Nanoseconds since 1970 UTC.
    pub time_ns: u64,
    /// Length on the wire, in bytes.
    pub original: u32,
    /// Length of `data`, in bytes.
    pub captured: u32,
    /// The captured bytes, without padding.
    pub data: &'a [u8],
}

/// The packets of a run, in order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

/// The packets in `bytes`, which start at a block.
pub fn records(bytes: &[u8]) -> Records<'_> {
    Records { rest: bytes }
}

impl<'a> Records<'a> {
    /// The bytes not iterated over.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let head = self.rest.first_chunk::<28>()?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let captured = word(20);
        let (total, len) = (usize::try_from(word(4)).ok()?, usize::try_from(captured).ok()?);
        let least = len.checked_add(filling(len))?.checked_add(ng::PACKET_LEAST)?;
        if word(0) != ng::PACKET || total < least || total & 3 != 0 {
            return None;
        }
        let (bytes, rest) = self.rest.split_at_checked(total)?;
        if bytes.last_chunk::<4>()? != head[4..].first_chunk::<4>()? {
            return None;
        }
        self.rest = rest;
        Some(Record {
            bytes,
            interface: word(8),
            time_ns: u64::from(word(12)) << 32 | u64::from(word(16)),
            original: word(24),
            captured,
            data: bytes.get(28..28 + len)?,
        })
    }
}

impl std::iter::FusedIterator for Records<'_> {}
