//! Reading a segment block by block, and the blocks that only recordings have.
//!
//! `NH`, the head, once after the section header: version (4 bytes, 1), the machine's start (4), number of the segment (8),
//! realtime minus boot time in nanoseconds when it began (8, signed). `NS`, a sighting: interface (4), time in nanoseconds since 1970
//! (high 4, low 4), length on the wire (4), where the block of the stored packet begins in the segment (8), its `epb_flags`
//! (4), bytes of its own headers (4), bytes that it shares with the end of the stored packet (4), 0 (4), then its own
//! headers, padded to 4 bytes. All little-endian, in the frame of draft-ietf-opsawg-pcapng, section 3.1.

use netloom_pcap::{InterfaceId, run};

use crate::{Error, Result};

/// Types for local use: the highest bit, and letters.
const HEAD: u32 = 0x8000_4e48;
const SIGHTING: u32 = 0x8000_4e53;
/// The version of the format.
const VERSION: u32 = 1;

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its number: later ones are higher.
    pub number: u64,
    /// Realtime minus boot time when it began, in nanoseconds. A step of the clock begins a new segment.
    pub clock: i64,
    /// Which start of the machine boot time counts from: a number that differs between starts, 0 where it is not known. An
    /// index does not have it.
    pub start: u32,
}

/// A frame as it was seen at one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Where its block begins.
    pub at: u64,
    /// Where the block of the stored packet begins: the same, unless this is a sighting.
    pub place: u64,
    /// The link's number in the segment.
    pub interface: InterfaceId,
    /// Nanoseconds since 1970 UTC.
    pub time_ns: u64,
    /// Its length on the wire.
    pub original: u32,
    /// `epb_flags`.
    pub flags: u32,
    /// Its own bytes: all, or the headers of a sighting.
    pub own: &'a [u8],
    /// How many bytes follow these from the end of the stored packet.
    pub shared: u32,
}

impl Seen<'_> {
    /// Whether it is a sighting of a packet that is stored already.
    pub fn is_again(&self) -> bool {
        self.at != self.place
    }

    /// The whole frame, given the data of the stored packet.
    ///
    /// # Errors
    /// [`Error::Sighting`]: the stored packet is shorter than what is shared.
    pub fn frame(&self, stored: &[u8]) -> Result<Vec<u8>> {
        let shared = usize::try_from(self.shared).unwrap_or(usize::MAX);
        let from = stored.len().checked_sub(shared).ok_or(Error::Sighting {
            at: self.at,
            what: "it shares more bytes than its packet has",
        })?;
        Ok([self.own, stored.get(from..).unwrap_or_default()].concat())
    }
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// The head.
    Head(Head),
    /// A link, numbered in the order of these.
    Link(&'a str),
    /// A frame.
    Seen(Seen<'a>),
    /// Anything else.
    Other,
}

/// The blocks of a segment or of a part of it.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    rest: &'a [u8],
    at: u64,
}

/// The blocks in `bytes`, which begin at byte `at` of the segment and at a block.
pub fn blocks(bytes: &[u8], at: u64) -> Blocks<'_> {
    Blocks { rest: bytes, at }
}

impl Blocks<'_> {
    /// Where the next block would begin: after the last whole one.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The bytes after the last whole block.
    pub fn rest(&self) -> &[u8] {
        self.rest
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        let total = usize::try_from(word(self.rest, 4)?).ok()?;
        if total < 12 || !total.is_multiple_of(4) {
            return None;
        }
        let (block, rest) = self.rest.split_at_checked(total)?;
        if word(block, total - 4)? != word(block, 4)? {
            return None;
        }
        let found = parse(block, self.at);
        (self.rest, self.at) = (rest, self.at + total as u64);
        Some(found)
    }
}

fn parse(block: &[u8], at: u64) -> Block<'_> {
    let body = block.get(8..block.len() - 4).unwrap_or_default();
    let found = match word(block, 0) {
        Some(HEAD) => head(body).map(Block::Head),
        Some(SIGHTING) => sighting(body, at).map(Block::Seen),
        Some(1) => Some(Block::Link(name(body))),
        Some(6) => stored(block, at).map(Block::Seen),
        _ => None,
    };
    found.unwrap_or(Block::Other)
}

fn head(body: &[u8]) -> Option<Head> {
    let [number, clock] = [long(body, 8)?, long(body, 16)?];
    let start = word(body, 4)?;
    (word(body, 0)? == VERSION).then_some(Head { number, clock: clock.cast_signed(), start })
}

fn sighting(body: &[u8], at: u64) -> Option<Seen<'_>> {
    let length = usize::try_from(word(body, 28)?).ok()?;
    Some(Seen {
        at,
        // One that names itself would be a packet.
        place: long(body, 16).filter(|place| *place < at)?,
        interface: word(body, 0)?,
        time_ns: u64::from(word(body, 4)?) << 32 | u64::from(word(body, 8)?),
        original: word(body, 12)?,
        flags: word(body, 24)?,
        own: body.get(40..)?.get(..length)?,
        shared: word(body, 32)?,
    })
}

fn stored(block: &[u8], at: u64) -> Option<Seen<'_>> {
    let record = run::records(block).next()?;
    Some(Seen {
        at,
        place: at,
        interface: record.interface,
        time_ns: record.time_ns,
        original: record.original,
        flags: flags(&record),
        own: record.data,
        shared: 0,
    })
}

/// `epb_flags` of a packet block, 0 without any.
pub(crate) fn flags(record: &run::Record<'_>) -> u32 {
    let end = record.bytes.len().saturating_sub(4);
    let options = record.bytes.get(28 + record.data.len().next_multiple_of(4)..end);
    option(options.unwrap_or_default(), 2).and_then(|value| word(value, 0)).unwrap_or(0)
}

/// The name of a link, from the body of its interface block.
fn name(body: &[u8]) -> &str {
    let name = option(body.get(8..).unwrap_or_default(), 2).unwrap_or_default();
    std::str::from_utf8(name).unwrap_or("")
}

/// The value of the first option with this code.
fn option(mut options: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((&[a, b, c, d], rest)) = options.split_first_chunk::<4>() {
        let (code, length) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
        if code == wanted {
            return rest.get(..length);
        }
        if code == 0 {
            return None;
        }
        options = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// Appends the head.
pub(crate) fn put_head(out: &mut Vec<u8>, head: Head) {
    block(out, HEAD, |out| {
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&head.start.to_le_bytes());
        out.extend_from_slice(&head.number.to_le_bytes());
        out.extend_from_slice(&head.clock.to_le_bytes());
    });
}

/// Appends a sighting.
pub(crate) fn put_sighting(out: &mut Vec<u8>, seen: &Seen<'_>) {
    block(out, SIGHTING, |out| {
        let [a, b, c, d, e, f, g, h] = seen.time_ns.to_be_bytes();
        let (high, low) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        for word in [seen.interface, high, low, seen.original] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&seen.place.to_le_bytes());
        for word in [seen.flags, length(seen.own.len()), seen.shared, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(seen.own);
        let padding = seen.own.len().wrapping_neg() & 3;
        out.resize(out.len() + padding, 0);
    });
}

/// A length that fits: frames have at most 2^28 bytes.
pub(crate) fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let total = length(out.len() - start + 4).to_le_bytes();
    out.extend_from_slice(&total);
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&total);
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}
