//! Reading and writing big-endian fields with bounds.
//!
//! A reader knows its version and the reason to give when bytes are missing; a writer knows its version.
//! Reading allocates at most in proportion to the message, which has at most 65,535 bytes.

use crate::error::{EncodeError, Reason};
use crate::header::Version;

/// Why bytes were refused: the reason to answer, and the object in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub(crate) reason: Reason,
    pub(crate) object: &'static str,
}

pub(crate) type Result<T> = std::result::Result<T, Fail>;
pub(crate) type Encoded = std::result::Result<(), EncodeError>;

/// Refuses.
pub(crate) fn fail<T>(reason: Reason, object: &'static str) -> Result<T> {
    Err(Fail { reason, object })
}

/// Bytes that are left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    left: &'a [u8],
    pub(crate) version: Version,
    /// The reason when there are too few bytes, or too many.
    pub(crate) length: Reason,
    object: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], version: Version, object: &'static str) -> Reader<'a> {
        Reader { left: bytes, version, length: Reason::BadRequestBadLen, object }
    }

    /// The same bytes, of another object, with another reason for wrong lengths.
    pub(crate) fn of(self, object: &'static str, length: Reason) -> Reader<'a> {
        Reader { length, object, ..self }
    }

    pub(crate) fn is_10(&self) -> bool {
        self.version == Version::V10
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.left.len()
    }

    pub(crate) fn too_short<T>(&self) -> Result<T> {
        fail(self.length, self.object)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((head, rest)) = self.left.split_first_chunk::<N>() else {
            return self.too_short();
        };
        self.left = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.left.split_at_checked(count) else {
            return self.too_short();
        };
        self.left = rest;
        Ok(head)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<()> {
        self.bytes(count).map(|_| ())
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.left).to_vec()
    }

    /// A reader of the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<Reader<'a>> {
        Ok(Reader { left: self.bytes(count)?, ..*self })
    }

    /// The 16-bit number `at` bytes ahead.
    pub(crate) fn peek_u16(&self, at: usize) -> Result<u16> {
        // A copy, so that nothing is taken from this one.
        let mut ahead = *self;
        ahead.skip(at)?;
        ahead.u16()
    }

    /// A reader of one object whose 16-bit length stands `at` bytes ahead, is at least `least`, and counts from here.
    pub(crate) fn sized(&mut self, at: usize, least: usize) -> Result<Reader<'a>> {
        let length = usize::from(self.peek_u16(at)?);
        if length < least {
            return self.too_short();
        }
        self.take(length)
    }

    /// Skips what pads an object of `length` bytes to a multiple of 8.
    pub(crate) fn pad8(&mut self, length: usize) -> Result<()> {
        self.skip(length.wrapping_neg() & 7)
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<()> {
        if self.left.is_empty() { Ok(()) } else { self.too_short() }
    }

    /// Reads objects until nothing is left.
    pub(crate) fn all<T>(&mut self, read: impl Fn(&mut Reader<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_empty() {
            let before = self.remaining();
            items.push(read(self)?);
            // An object of no bytes would keep the loop going forever.
            if self.remaining() == before {
                return self.too_short();
            }
        }
        Ok(items)
    }
}

/// Bytes written so far.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    pub(crate) version: Version,
}

impl Writer {
    pub(crate) fn new(version: Version) -> Writer {
        Writer { bytes: Vec::new(), version }
    }

    pub(crate) fn is_10(&self) -> bool {
        self.version == Version::V10
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    /// Pads what began at `start` to a multiple of 8.
    pub(crate) fn pad8(&mut self, start: usize) {
        self.zeros((self.len() - start).wrapping_neg() & 7);
    }

    /// Writes how many bytes there are since `start` as a 16-bit number at `at`.
    pub(crate) fn set_length(&mut self, start: usize, at: usize, object: &'static str) -> Encoded {
        let length = self.len() - start;
        let Ok(number) = u16::try_from(length) else {
            return Err(EncodeError::TooLong { object, length });
        };
        if let Some(place) = self.bytes.get_mut(at..at + 2) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        Ok(())
    }

    /// Refuses what the version lacks.
    pub(crate) fn lacks(&self, object: &'static str) -> Encoded {
        Err(EncodeError::NotInVersion { object, version: self.version })
    }
}
