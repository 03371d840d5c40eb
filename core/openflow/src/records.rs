//! Files of what a later process of a switch or a slicer must know: a sequence of records, as bytes.
//!
//! A record is its length (`u32`), a sum over the rest (FNV-1a, `u32`), a kind (`u8`) and a body; numbers are
//! little-endian, and what OpenFlow can say is a message. A last record that is not whole was being written when the
//! process ended: it is left out. Anything else that is wrong is an error. What the kinds mean is the caller's.

use netloom_digest::fnv1a;

use crate::header::HEADER_LEN;
use crate::{Header, Message, Version, decode, encode};

/// Bytes before a record's body.
pub const HEAD: usize = 9;

/// Longest body: one with a message, times and counters is much shorter.
const MOST: usize = 1 << 20;

/// Why a body ends too soon.
const SHORT: &str = "a record is shorter than its length field";

/// Most pairs of a record.
const MOST_PAIRS: u32 = 4096;

/// Appends a record; `body` writes it and returns its kind. Without effect if it cannot be said.
///
/// # Errors
/// It cannot.
pub fn put(
    to: &mut Vec<u8>,
    body: impl FnOnce(&mut Writer<'_>) -> Result<u8, Unsayable>,
) -> Result<(), &'static str> {
    let start = to.len();
    to.extend([0; HEAD]);
    let kind = body(&mut Writer(to));
    let length = to.len() - start - HEAD;
    let (Ok(kind), Ok(short), true) = (kind, u32::try_from(length), length <= MOST) else {
        to.truncate(start);
        return Err("longer than a message can be");
    };
    if let Some(place) = to.get_mut(start + 8) {
        *place = kind;
    }
    let sum = fnv1a::hash_32(to.get(start + 8..).unwrap_or(&[]));
    if let Some(head) = to.get_mut(start..start + 8) {
        let (length, place) = head.split_at_mut(4);
        length.copy_from_slice(&short.to_le_bytes());
        place.copy_from_slice(&sum.to_le_bytes());
    }
    Ok(())
}

/// Gives each record's place, kind and body to `take`; returns how many bytes are whole records.
///
/// # Errors
/// With what is wrong, and where.
pub fn each(
    bytes: &[u8],
    mut take: impl FnMut(usize, u8, &[u8]) -> Result<(), &'static str>,
) -> Result<usize, String> {
    let mut at = 0;
    let wrong = |at: usize| move |reason| format!("at byte {at}: {reason}");
    while let Some((kind, body)) = whole(bytes.get(at..).unwrap_or(&[])).map_err(wrong(at))? {
        take(at, kind, body).map_err(wrong(at))?;
        at += HEAD + body.len();
    }
    Ok(at)
}

/// The first record's kind and body; `None` if it is not whole.
fn whole(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, &'static str> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
    let [l0, l1, l2, l3, s0, s1, s2, s3, kind] = *head;
    let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    // Such a record was never begun: to wait for its end would hide all behind it.
    if length > MOST {
        return Err("a record is too long");
    }
    let Some(body) = bytes.get(HEAD..HEAD + length) else { return Ok(None) };
    let sum = fnv1a::hash_32(bytes.get(8..HEAD + length).unwrap_or(&[]));
    if sum != u32::from_le_bytes([s0, s1, s2, s3]) {
        return Err("a record does not have its sum");
    }
    Ok(Some((kind, body)))
}

/// Any bytes, with the sums that their records should have. For tests of hostile files.
pub fn with_sums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(head) = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) {
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        let Some(end) = at.checked_add(HEAD).and_then(|at| at.checked_add(length)) else { break };
        let Some(summed) = bytes.get(at + 8..end) else { break };
        let sum = fnv1a::hash_32(summed);
        if let Some(place) = bytes.get_mut(at + 4..at + 8) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        at = end;
    }
    bytes
}

/// What a record was to say cannot be said by a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsayable;

/// Appends to a body.
#[derive(Debug)]
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    /// A number.
    pub fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    /// A number.
    pub fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// Numbers.
    pub fn all(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.u64(*value));
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Text after its length.
    pub fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.bytes(text.as_bytes());
    }

    /// Pairs, after their number.
    pub fn pairs(&mut self, pairs: &[(u64, u64)]) {
        self.u32(u32::try_from(pairs.len()).unwrap_or(u32::MAX));
        pairs.iter().for_each(|(a, b)| self.all(&[*a, *b]));
    }

    /// A message; it says its length and version itself.
    ///
    /// # Errors
    /// The version lacks something of it, or it is too long.
    pub fn message(&mut self, version: Version, message: &Message) -> Result<(), Unsayable> {
        self.0.extend(encode(version, 0, message).map_err(|_| Unsayable)?);
        Ok(())
    }
}

/// Takes a body apart.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

type Read<T> = Result<T, &'static str>;

impl Reader<'_> {
    /// Takes the given number of bytes.
    ///
    /// # Errors
    /// The body ends before; the same holds for the methods below.
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*head)
    }

    /// A number.
    ///
    /// # Errors
    /// The body is not so.
    pub fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number.
    ///
    /// # Errors
    /// The body is not so.
    pub fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The given number of numbers.
    ///
    /// # Errors
    /// The body is not so.
    pub fn all<const N: usize>(&mut self) -> Read<[u64; N]> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.u64()?;
        }
        Ok(values)
    }

    /// Text after its length.
    ///
    /// # Errors
    /// The body is not so.
    pub fn text(&mut self) -> Read<String> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let (text, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| "a name is not text")
    }

    /// Pairs, after their number.
    ///
    /// # Errors
    /// The body is not so.
    pub fn pairs(&mut self) -> Read<Vec<(u64, u64)>> {
        let count = self.u32()?;
        if count > MOST_PAIRS {
            return Err("a record has too many counters");
        }
        (0..count).map(|_| Ok((self.u64()?, self.u64()?))).collect()
    }

    /// A message, and its version.
    ///
    /// # Errors
    /// The body is not so.
    pub fn message(&mut self) -> Read<(Version, Message)> {
        let length = Header::parse(self.0).map_or(0, |header| usize::from(header.length));
        // At least a header, so that `decode` says what is wrong with the length.
        let (bytes, rest) = self.0.split_at_checked(length.max(HEADER_LEN)).ok_or(SHORT)?;
        self.0 = rest;
        let (header, message) = decode(bytes).map_err(|_| "a record's message cannot be read")?;
        let version = header.version().ok_or("a record's message is of no known version")?;
        Ok((version, message))
    }
}
