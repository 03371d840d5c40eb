//! Numbers and messages of records.

use netloom_openflow::header::HEADER_LEN;
use netloom_openflow::{Header, Message, Version};

use super::{decode_message, encode_message};

/// Why a body ends too soon.
const SHORT: &str = "a record is shorter than what it says";

/// Most pairs of a record.
const MOST_PAIRS: u32 = 4096;

/// Appends to a body.
pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn all(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.u64(*value));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Text after its length.
    pub(super) fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.bytes(text.as_bytes());
    }

    /// Pairs, after their number.
    pub(super) fn pairs(&mut self, pairs: &[(u64, u64)]) {
        self.u32(u32::try_from(pairs.len()).unwrap_or(u32::MAX));
        pairs.iter().for_each(|(a, b)| self.all(&[*a, *b]));
    }

    /// A message; it says its length and version itself.
    pub(super) fn message(&mut self, version: Version, message: &Message) -> Result<(), ()> {
        self.0.extend(encode_message(version, 0, message).map_err(drop)?);
        Ok(())
    }
}

/// Takes a body apart.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

type Read<T> = Result<T, &'static str>;

impl Reader<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn all<const N: usize>(&mut self) -> Read<[u64; N]> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.u64()?;
        }
        Ok(values)
    }

    pub(super) fn text(&mut self) -> Read<String> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let (text, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| "a name is no text")
    }

    pub(super) fn pairs(&mut self) -> Read<Vec<(u64, u64)>> {
        let count = self.u32()?;
        if count > MOST_PAIRS {
            return Err("a record has too many counters");
        }
        (0..count).map(|_| Ok((self.u64()?, self.u64()?))).collect()
    }

    pub(super) fn message(&mut self) -> Read<(Version, Message)> {
        let length = Header::parse(self.0).map_or(0, |header| usize::from(header.length));
        let (bytes, rest) = self.0.split_at_checked(length.max(HEADER_LEN)).ok_or(SHORT)?;
        self.0 = rest;
        let (header, message) =
            decode_message(bytes).map_err(|_| "a record's message cannot be read")?;
        let version = header.version().ok_or("a record's message is of no known version")?;
        Ok((version, message))
    }
}
