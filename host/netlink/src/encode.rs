//! Encodes netlink messages: header, fixed part, attributes, nests.
//!
//! Messages are appended to one byte vector, so a whole batch is one allocation and one `sendmsg`.
//! Invariant: after each call the vector's length is a multiple of four and every finished length
//! field covers its content. Values are in the machine's byte order unless the function's name says
//! otherwise. Specification: netlink(7).

use crate::uapi::{HEADER, NLA_F_NESTED};

const ATTRIBUTE_HEADER: usize = 4;

/// One message under construction at the end of a byte vector.
pub(crate) struct Encoder<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// Appends one message: its header, then what `body` writes.
    pub(crate) fn message(
        bytes: &'a mut Vec<u8>,
        kind: u16,
        flags: u16,
        body: impl FnOnce(&mut Encoder<'_>),
    ) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; HEADER]);
        body(&mut Encoder { bytes });
        // The requests of this crate cannot build a message of 4 GiB.
        let length = u32::try_from(bytes.len() - start).unwrap_or(u32::MAX);
        bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        bytes[start + 4..start + 6].copy_from_slice(&kind.to_ne_bytes());
        bytes[start + 6..start + 8].copy_from_slice(&flags.to_ne_bytes());
    }

    /// Appends a fixed part; its length must be a multiple of four.
    pub(crate) fn fixed(&mut self, part: &[u8]) {
        debug_assert_eq!(part.len() % 4, 0);
        self.bytes.extend_from_slice(part);
    }

    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let start = self.open(kind);
        self.bytes.extend_from_slice(value);
        self.close(start);
    }

    pub(crate) fn u8(&mut self, kind: u16, value: u8) {
        self.attribute(kind, &[value]);
    }

    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    pub(crate) fn u32_big_endian(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// A string with its closing NUL. A NUL within the text becomes `/`, which the kernel refuses
    /// in every name, instead of silently truncating the name.
    pub(crate) fn string(&mut self, kind: u16, text: &str) {
        let start = self.open(kind);
        self.bytes.extend(text.bytes().map(|byte| if byte == 0 { b'/' } else { byte }));
        self.bytes.push(0);
        self.close(start);
    }

    /// A nested attribute without the nesting flag, as rtnetlink's older types require.
    pub(crate) fn nest(&mut self, kind: u16, body: impl FnOnce(&mut Encoder<'_>)) {
        let start = self.open(kind);
        body(&mut Encoder { bytes: self.bytes });
        self.close(start);
    }

    /// A nested attribute with the nesting flag, as nftables requires.
    pub(crate) fn marked_nest(&mut self, kind: u16, body: impl FnOnce(&mut Encoder<'_>)) {
        self.nest(kind | NLA_F_NESTED, body);
    }

    /// One `struct rtnexthop` of a route: length, flags, weight minus one, link index, attributes.
    pub(crate) fn next_hop(&mut self, link: u32, body: impl FnOnce(&mut Encoder<'_>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&link.to_ne_bytes());
        body(&mut Encoder { bytes: self.bytes });
        // A header and a few attributes.
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    fn close(&mut self, start: usize) {
        // The kernel refuses an overflowing length as malformed; only a string of more than 64 KiB
        // causes it.
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        debug_assert!(usize::from(length) >= ATTRIBUTE_HEADER);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}
