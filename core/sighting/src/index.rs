//! The index of a segment: for each group of blocks its times, and the keys of its packets.
//!
//! As bytes, little-endian: `NLIX`, version (4 bytes, 1), number of the segment (8), its clock (8), where the indexed part
//! ends (8), number of links (4) and of groups (4); each link's name with its length (4); each group: where it begins and
//! ends (8, 8), first and last time (8, 8), packets (4), number of keys (4), and the keys (4 each), ascending; at the
//! end a hash of all that (8).

use netloom_packet::hash;

use crate::block::{Block, Head, Seen, blocks, length, long, word};
use crate::flow::{Flow, Key, link_key};
use crate::{Error, Result};

const MAGIC: &[u8; 4] = b"NLIX";
const VERSION: u32 = 1;

/// A group ends with the block with which it has this many bytes.
const GROUP: u64 = 128 << 10;

/// Neighbouring blocks of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Where its first block begins.
    pub at: u64,
    /// Where its last block ends.
    pub end: u64,
    /// The earliest time of its packets, in nanoseconds since 1970 UTC.
    pub first: u64,
    /// The latest.
    pub last: u64,
    /// Its packets and sightings.
    pub packets: u32,
    /// The keys of its packets, ascending, each once.
    pub keys: Vec<Key>,
}

impl Group {
    /// Whether a packet of it may have one of these keys.
    pub fn may_have(&self, any_of: &[Key]) -> bool {
        any_of.iter().any(|key| self.keys.binary_search(key).is_ok())
    }

    fn settle(&mut self) {
        self.keys.sort_unstable();
        self.keys.dedup();
    }
}

/// The index of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// What the segment says of itself.
    pub head: Head,
    /// Where the indexed part ends.
    pub end: u64,
    /// The links, by their number.
    pub links: Vec<String>,
    /// In the order of the segment.
    pub groups: Vec<Group>,
}

impl Index {
    /// Makes the index of a segment, or of the beginning of one that was cut; `None` if it has no head.
    pub fn of(segment: &[u8]) -> Option<Index> {
        let (mut building, mut head) = (Building::default(), None);
        let mut all = blocks(segment, 0);
        while let Some(block) = all.next() {
            match block {
                Block::Head(found) => head = Some(found),
                Block::Link(name) => building.link(name),
                Block::Seen(seen) => {
                    let frame = whole(segment, &seen);
                    building.add(&seen, all.at(), frame.as_deref().and_then(Flow::of));
                }
                Block::Other => {}
            }
        }
        Some(building.finish(head?, all.at()))
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.head.number.to_le_bytes());
        out.extend_from_slice(&self.head.clock.to_le_bytes());
        out.extend_from_slice(&self.end.to_le_bytes());
        for count in [self.links.len(), self.groups.len()] {
            out.extend_from_slice(&length(count).to_le_bytes());
        }
        for link in &self.links {
            out.extend_from_slice(&length(link.len()).to_le_bytes());
            out.extend_from_slice(link.as_bytes());
        }
        for group in &self.groups {
            for value in [group.at, group.end, group.first, group.last] {
                out.extend_from_slice(&value.to_le_bytes());
            }
            out.extend_from_slice(&group.packets.to_le_bytes());
            out.extend_from_slice(&length(group.keys.len()).to_le_bytes());
            group.keys.iter().for_each(|key| out.extend_from_slice(&key.to_le_bytes()));
        }
        let sum = hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`Error::Index`]: the segment has to be read instead.
    pub fn decode(bytes: &[u8]) -> Result<Index> {
        let (content, sum) = bytes.split_last_chunk::<8>().ok_or(Error::Index("too short"))?;
        if content.get(..4) != Some(MAGIC) || word(content, 4) != Some(VERSION) {
            return Err(Error::Index("of another kind or version"));
        }
        if hash(content) != u64::from_le_bytes(*sum) {
            return Err(Error::Index("damaged"));
        }
        let index = read(content).ok_or(Error::Index("its lengths do not fit"))?;
        // The hash does not say who made it.
        index.is_sound().then_some(index).ok_or(Error::Index("its groups do not fit"))
    }

    /// Whether groups follow each other within the indexed part, with keys in their order.
    fn is_sound(&self) -> bool {
        let mut before = 0;
        self.groups.iter().all(|group| {
            let follows = before <= group.at && group.at < group.end && group.end <= self.end;
            before = group.end;
            follows && group.first <= group.last && group.keys.is_sorted_by(|a, b| a < b)
        })
    }
}

/// The whole frame of a block of this segment.
fn whole<'a>(segment: &'a [u8], seen: &Seen<'a>) -> Option<std::borrow::Cow<'a, [u8]>> {
    if !seen.is_again() {
        return Some(seen.own.into());
    }
    let from = usize::try_from(seen.place).ok()?;
    match blocks(segment.get(from..)?, seen.place).next()? {
        Block::Seen(stored) if !stored.is_again() => seen.frame(stored.own).ok().map(Into::into),
        _ => None,
    }
}

fn read(content: &[u8]) -> Option<Index> {
    let mut rest = content.get(8..)?;
    let eight = |rest: &mut &[u8]| {
        let value = long(rest, 0)?;
        *rest = rest.get(8..)?;
        Some(value)
    };
    let four = |rest: &mut &[u8]| {
        let value = usize::try_from(word(rest, 0)?).ok()?;
        *rest = rest.get(4..)?;
        Some(value)
    };
    let number = eight(&mut rest)?;
    let clock = eight(&mut rest)?.cast_signed();
    let end = eight(&mut rest)?;
    let (links, groups) = (four(&mut rest)?, four(&mut rest)?);
    let mut index = Index { head: Head { number, clock, start: 0 }, end, ..Index::default() };
    for _ in 0..links {
        let length = four(&mut rest)?;
        let (name, after) = rest.split_at_checked(length)?;
        index.links.push(std::str::from_utf8(name).ok()?.to_owned());
        rest = after;
    }
    for _ in 0..groups {
        let (at, end) = (eight(&mut rest)?, eight(&mut rest)?);
        let (first, last) = (eight(&mut rest)?, eight(&mut rest)?);
        let packets = u32::try_from(four(&mut rest)?).ok()?;
        let length = four(&mut rest)?.checked_mul(4)?;
        let (keys, after) = rest.split_at_checked(length)?;
        rest = after;
        let keys = keys.as_chunks::<4>().0.iter().map(|key| u32::from_le_bytes(*key)).collect();
        index.groups.push(Group { at, end, first, last, packets, keys });
    }
    rest.is_empty().then_some(index)
}

/// An index under way.
#[derive(Debug, Default)]
pub(crate) struct Building {
    links: Vec<String>,
    link_keys: Vec<Key>,
    groups: Vec<Group>,
    open: bool,
}

impl Building {
    pub(crate) fn link(&mut self, name: &str) {
        self.links.push(name.to_owned());
        self.link_keys.push(link_key(name));
    }

    /// Adds a frame whose block ends at `end`.
    pub(crate) fn add(&mut self, seen: &Seen<'_>, end: u64, flow: Option<Flow>) {
        if !self.open {
            self.groups.push(Group { at: seen.at, first: u64::MAX, ..Group::default() });
            self.open = true;
        }
        let Some(group) = self.groups.last_mut() else { return };
        group.end = end;
        group.first = group.first.min(seen.time_ns);
        group.last = group.last.max(seen.time_ns);
        group.packets += 1;
        let link = usize::try_from(seen.interface).ok().and_then(|at| self.link_keys.get(at));
        group.keys.extend(link);
        if let Some(flow) = flow {
            flow.keys(|key| group.keys.push(key));
        }
        if end - group.at >= GROUP {
            group.settle();
            self.open = false;
        }
    }

    pub(crate) fn finish(mut self, head: Head, end: u64) -> Index {
        if let Some(last) = self.groups.last_mut() {
            last.settle();
        }
        let head = Head { start: 0, ..head };
        Index { head, end, links: self.links, groups: self.groups }
    }
}
