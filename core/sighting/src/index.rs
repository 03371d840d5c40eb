//! The index of a segment: for each group of blocks its times, and the keys of its packets.
//!
//! Format: little-endian, three parts, each with its own hash. The head: `NLIX`, version (4 bytes, 2), number of the
//! segment (8), its clock (8), where the indexed part ends (8), length of the head (4), number of links (4), of groups (4) and of
//! pages (4); each link's name with its length (4); each group: where it begins and ends (8, 8), first and last time (8, 8),
//! packets (4) and number of keys (4); a hash of all that (8). Then the pages ([`crate::filter`]). At last the keys of all groups (4
//! each), those of a group ascending, and a hash of them (8). A question reads the head, a page for each of its keys, and the
//! rest only where these may have one.

use netloom_packet::hash;

use crate::block::{Block, Head, Seen, blocks, length, long, word};
use crate::filter;
use crate::flow::{Flow, Key, link_key};
use crate::{Error, Result};

const MAGIC: &[u8; 4] = b"NLIX";
const VERSION: u32 = 2;

/// Bytes of the head before the links.
const FIXED: usize = 48;

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
        let keys = || self.groups.iter().flat_map(|group| group.keys.iter().copied());
        let pages = filter::pages(keys().count());
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.head.number.to_le_bytes());
        out.extend_from_slice(&self.head.clock.to_le_bytes());
        out.extend_from_slice(&self.end.to_le_bytes());
        let names: usize = self.links.iter().map(|link| 4 + link.len()).sum();
        let head = FIXED + names + GROUP_BYTES * self.groups.len() + 8;
        for count in [head, self.links.len(), self.groups.len()] {
            out.extend_from_slice(&length(count).to_le_bytes());
        }
        out.extend_from_slice(&pages.to_le_bytes());
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
        }
        let sum = hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend(filter::filter(keys(), pages));
        let from = out.len();
        keys().for_each(|key| out.extend_from_slice(&key.to_le_bytes()));
        let sum = hash(out.get(from..).unwrap_or_default());
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`Error::Index`]: the segment has to be read instead.
    pub fn decode(bytes: &[u8]) -> Result<Index> {
        let brief = Brief::decode(bytes)?;
        let (from, length) = brief.keys();
        let part = |from: u64, length: u64| {
            let from = usize::try_from(from).ok()?;
            bytes.get(from..from.checked_add(usize::try_from(length).ok()?)?)
        };
        let keys = part(from, length).ok_or(Error::Index("too short"))?;
        let (head, pages) = (brief.length, brief.pages);
        let index = brief.with_keys(keys)?;
        let all = index.groups.iter().flat_map(|group| group.keys.iter().copied());
        let count = index.groups.iter().map(|group| group.keys.len()).sum();
        let filter = part(head as u64, from.saturating_sub(head as u64)).unwrap_or_default();
        if pages != filter::pages(count) || filter != filter::filter(all, pages) {
            return Err(Error::Index("its pages do not fit"));
        }
        if from + length != bytes.len() as u64 {
            return Err(Error::Index("its lengths do not fit"));
        }
        Ok(index)
    }

    /// Whether groups follow each other within the indexed part.
    fn is_sound(&self) -> bool {
        let mut before = 0;
        self.groups.iter().all(|group| {
            let follows = before <= group.at && group.at < group.end && group.end <= self.end;
            before = group.end;
            follows && group.first <= group.last
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

/// Bytes of a group in the head.
const GROUP_BYTES: usize = 40;

/// The head of an index: all but the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    /// The index, with groups that have no keys yet.
    pub index: Index,
    /// How many each has.
    counts: Vec<usize>,
    /// Bytes of the head.
    length: usize,
    pages: u32,
}

impl Brief {
    /// Bytes of a page.
    pub const PAGE: usize = filter::PAGE;

    /// How long the head is, given its first bytes; `None` for anything else than an index of this version.
    pub fn length(first: &[u8]) -> Option<usize> {
        if first.get(..4)? != MAGIC || word(first, 4)? != VERSION {
            return None;
        }
        usize::try_from(word(first, 32)?).ok()
    }

    /// From an index, or the beginning of one.
    ///
    /// # Errors
    /// [`Error::Index`]: the segment has to be read instead.
    pub fn decode(bytes: &[u8]) -> Result<Brief> {
        if bytes.len() < FIXED {
            return Err(Error::Index("too short"));
        }
        let length = Brief::length(bytes).ok_or(Error::Index("of another kind or version"))?;
        let head = bytes.get(..length).and_then(<[u8]>::split_last_chunk::<8>);
        let (content, sum) = head.ok_or(Error::Index("too short"))?;
        if hash(content) != u64::from_le_bytes(*sum) {
            return Err(Error::Index("damaged"));
        }
        let brief = Brief::read(content, length).ok_or(Error::Index("its lengths do not fit"))?;
        // The hash does not say who made it.
        brief.index.is_sound().then_some(brief).ok_or(Error::Index("its groups do not fit"))
    }

    fn read(content: &[u8], length: usize) -> Option<Brief> {
        let number = |at: usize| word(content, at).and_then(|word| usize::try_from(word).ok());
        let head =
            Head { number: long(content, 8)?, clock: long(content, 16)?.cast_signed(), start: 0 };
        let mut index = Index { head, end: long(content, 24)?, ..Index::default() };
        let (links, groups, pages) = (number(36)?, number(40)?, word(content, 44)?);
        let mut at = FIXED;
        for _ in 0..links {
            let (from, of) = (at + 4, number(at)?);
            at = from.checked_add(of)?;
            let name = content.get(from..at)?;
            index.links.push(std::str::from_utf8(name).ok()?.to_owned());
        }
        let rest = content.get(at..)?;
        if rest.len() != groups.checked_mul(GROUP_BYTES)? {
            return None;
        }
        let mut counts = Vec::with_capacity(groups);
        for group in rest.chunks_exact(GROUP_BYTES) {
            index.groups.push(Group {
                at: long(group, 0)?,
                end: long(group, 8)?,
                first: long(group, 16)?,
                last: long(group, 24)?,
                packets: word(group, 32)?,
                keys: vec![],
            });
            counts.push(usize::try_from(word(group, 36)?).ok()?);
        }
        Some(Brief { index, counts, length, pages })
    }

    /// Where the page of a key begins; `None` if there are none, since keys are few.
    pub fn page(&self, key: Key) -> Option<u64> {
        let pages = Some(self.pages).filter(|pages| *pages > 0)?;
        Some(self.length as u64 + filter::page_of(key, pages) * filter::PAGE as u64)
    }

    /// Whether the index may have a key, given its page; `None` if the page is damaged.
    pub fn may_have(&self, page: &[u8], key: Key) -> Option<bool> {
        filter::may_have(page, key, self.pages)
    }

    /// Where the keys begin, and how many bytes they have, with their hash.
    pub fn keys(&self) -> (u64, u64) {
        let count: u64 = self.counts.iter().map(|count| *count as u64).sum();
        let pages = u64::from(self.pages) * filter::PAGE as u64;
        (self.length as u64 + pages, count.saturating_mul(4).saturating_add(8))
    }

    /// The index, given the bytes of the keys.
    ///
    /// # Errors
    /// [`Error::Index`]: the segment has to be read instead.
    pub fn with_keys(self, bytes: &[u8]) -> Result<Index> {
        let (content, sum) = bytes.split_last_chunk::<8>().ok_or(Error::Index("too short"))?;
        if hash(content) != u64::from_le_bytes(*sum) {
            return Err(Error::Index("damaged"));
        }
        let (mut index, mut rest) = (self.index, content.as_chunks::<4>().0);
        for (group, count) in index.groups.iter_mut().zip(self.counts) {
            let parts = rest.split_at_checked(count);
            let (keys, after) = parts.ok_or(Error::Index("its lengths do not fit"))?;
            group.keys = keys.iter().map(|key| u32::from_le_bytes(*key)).collect();
            rest = after;
        }
        let is_sound = |group: &Group| group.keys.is_sorted_by(|a, b| a < b);
        let all = index.groups.iter().all(is_sound);
        all.then_some(index).ok_or(Error::Index("its groups do not fit"))
    }
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
