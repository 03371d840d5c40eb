//! Answers from a recording, segment by segment, in order of boot time.
//!
//! The newest segment may be written meanwhile: it is read up to its last whole block. A segment that the recorder
//! removes meanwhile is left out, and counted. A frame is given when no later part of its segment, nor the next segment,
//! begins before it, so a few parts are in memory at a time; one that came later than that into the recording stands behind.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use netloom_sighting::{Block, Group, Index, Seen, blocks};
use netloom_sys::{Failure, trusted};
use rustix::fs::OFlags;

use crate::folder::{Folder, segment_name};
use crate::question::Question;
use crate::stored::Stored;
use crate::{Result, start};

/// Longest block that is read to complete a sighting: a frame of 256 MiB is the most that a capture file has.
const MOST_BLOCK: usize = (1 << 28) + 4096;

/// No segment has more bytes: it ends with the block with which it has 64 MiB.
const MOST_WHOLE: u64 = 1 << 29;

/// The head of a segment is within the first bytes, this many.
const HEAD_WITHIN: usize = 64 << 10;

/// A frame of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it was seen, in nanoseconds since 1970 UTC.
    pub time_ns: u64,
    /// When, in nanoseconds since the machine began to run: the order of frames, also across a step of the clock.
    pub order_ns: i64,
    /// The link.
    pub link: Rc<str>,
    /// Its length on the wire.
    pub original: u32,
    /// `epb_flags` of pcapng.
    pub flags: u32,
    /// A number common to all sightings of the packet.
    pub packet: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Boot time of a segment that is so much before that of the segment before: the machine was restarted between them.
const RESTART_NS: i64 = 10_000_000_000;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Segments that may hold what was asked for.
    pub segments: usize,
    /// Those that were removed or could not be read meanwhile.
    pub gone: usize,
    /// Those that are of another version, or damaged from their beginning.
    pub strange: usize,
    /// Bytes of blocks read.
    pub bytes: u64,
    /// Frames found.
    pub found: u64,
}

/// Calls `visit` with each frame that is asked for, in order, until that says `false`.
///
/// # Errors
/// The folder cannot be read; those of `visit`.
pub fn search<E: From<crate::Error>>(
    folder: &Folder,
    question: &Question,
    visit: impl FnMut(&Frame) -> std::result::Result<bool, E>,
) -> std::result::Result<Looked, E> {
    let mut merge = Merge { visit, waiting: vec![], looked: Looked::default(), is_over: false };
    // The beginning of the next segment says how far the one before is complete.
    let mut before: Option<Opened> = None;
    for number in folder.segments()? {
        match Opened::open(folder, number, question)? {
            Opening::Gone => merge.looked.gone += 1,
            Opening::Strange => merge.looked.strange += 1,
            Opening::Empty => {}
            Opening::Open(next) => {
                let begin = next.begin(0);
                if let Some(segment) = before.replace(next) {
                    merge.add(&segment, question, Some(begin))?;
                }
                if merge.is_over {
                    return Ok(merge.looked);
                }
            }
        }
    }
    if let Some(last) = before {
        merge.add(&last, question, None)?;
    }
    merge.give(None)?;
    Ok(merge.looked)
}

/// Frames of segments, brought into order.
struct Merge<V> {
    visit: V,
    waiting: Vec<Frame>,
    looked: Looked,
    /// Whether the visitor wants no more.
    is_over: bool,
}

impl<V> Merge<V> {
    /// Gives what a segment has. `next` is the order at which the next segment begins.
    fn add<E: From<crate::Error>>(
        &mut self,
        segment: &Opened,
        question: &Question,
        next: Option<i64>,
    ) -> std::result::Result<(), E>
    where
        V: FnMut(&Frame) -> std::result::Result<bool, E>,
    {
        let is_last = next.is_none();
        let restarts = next.is_some_and(|next| next.saturating_add(RESTART_NS) < segment.begin(0));
        let next = next.filter(|_| !restarts).unwrap_or(i64::MAX);
        self.looked.segments += 1;
        for (at, group) in segment.groups.iter().enumerate() {
            self.give(Some(segment.begin(at).min(next)))?;
            if self.is_over {
                return Ok(());
            }
            match segment.find(question, group, &mut self.waiting) {
                Ok(bytes) => self.looked.bytes += bytes,
                Err(error) if is_last => return Err(error.into()),
                Err(_) => {
                    self.looked.gone += 1;
                    break;
                }
            }
        }
        // Boot time began again: all that waits is older than what comes.
        if restarts { self.give(None) } else { Ok(()) }
    }

    /// Gives what waits: all that is before an order, or all.
    fn give<E>(&mut self, before: Option<i64>) -> std::result::Result<(), E>
    where
        V: FnMut(&Frame) -> std::result::Result<bool, E>,
    {
        self.waiting.sort_by_key(|frame| frame.order_ns);
        let is_ready = |frame: &Frame| before.is_none_or(|before| frame.order_ns < before);
        let ready = self.waiting.partition_point(is_ready);
        for frame in self.waiting.drain(..ready) {
            if self.is_over {
                break;
            }
            self.looked.found += 1;
            self.is_over = !(self.visit)(&frame)?;
        }
        Ok(())
    }
}

enum Opening {
    Gone,
    /// It has no head of this version.
    Strange,
    /// It has nothing of what is asked for.
    Empty,
    Open(Opened),
}

struct Opened {
    number: u64,
    file: File,
    path: std::path::PathBuf,
    index: Index,
    links: Vec<Rc<str>>,
    groups: Vec<Group>,
    /// All bytes, if they had to be read for the index.
    whole: Option<Vec<u8>>,
}

impl Opened {
    fn open(folder: &Folder, number: u64, question: &Question) -> Result<Opening> {
        let (name, dir) = (segment_name(number), folder.dir());
        let file = match dir.open_file(&name, OFlags::RDONLY) {
            Err(e) if trusted::is_missing(&e) => return Ok(Opening::Gone),
            opened => opened?,
        };
        let path = dir.path_of(&name);
        // Before the length, which grows until an index is there.
        let index = folder.index(number);
        let length =
            file.metadata().map_err(Failure::of(path.display().to_string(), "look at"))?.len();
        // An index of a longer segment is not of this one.
        let index = index.filter(|stored| stored.brief.index.end <= length);
        if index.as_ref().is_some_and(|stored| !may_answer(question, stored)) {
            return Ok(Opening::Empty);
        }
        let (index, whole) = match index.and_then(Stored::whole) {
            Some(index) => (index, None),
            None => {
                // A file with a hole may say any length.
                let length = usize::try_from(length.min(MOST_WHOLE)).unwrap_or(usize::MAX);
                let bytes = read(&file, &path, 0, length)?;
                match Index::of(&bytes) {
                    Some(index) => (index, Some(bytes)),
                    None if bytes.is_empty() => return Ok(Opening::Empty),
                    None => return Ok(Opening::Strange),
                }
            }
        };
        let links = index.links.iter().map(|link| Rc::from(link.as_str())).collect();
        let mut opened = Opened { number, file, path, groups: vec![], links, whole, index };
        opened.choose(question);
        let is_other = |opened: &Opened| is_of_other_start(&opened.file, &opened.path);
        if opened.groups.is_empty() || question.is_of_this_start() && is_other(&opened)? {
            return Ok(Opening::Empty);
        }
        Ok(Opening::Open(opened))
    }

    /// Keeps only groups that may hold what is asked for.
    fn choose(&mut self, question: &Question) {
        let keys = question.keys();
        let groups = std::mem::take(&mut self.index.groups).into_iter();
        self.groups = groups
            .filter(|group| {
                question.has_some(group.first..=group.last, self.order(group.last))
                    && keys.iter().all(|any_of| group.may_have(any_of))
            })
            .collect();
    }

    /// The order of the first frame of its groups from this one on.
    fn begin(&self, from: usize) -> i64 {
        let groups = self.groups.get(from..).unwrap_or_default();
        self.order(groups.iter().map(|group| group.first).min().unwrap_or(0))
    }

    fn order(&self, time_ns: u64) -> i64 {
        order(time_ns, &self.index)
    }

    /// Appends what is asked for in a group; returns the number of bytes looked at.
    fn find(&self, question: &Question, group: &Group, found: &mut Vec<Frame>) -> Result<u64> {
        let length = usize::try_from(group.end.saturating_sub(group.at)).unwrap_or(0);
        let bytes = self.bytes(group.at, length)?;
        for block in blocks(&bytes, group.at) {
            let Block::Seen(seen) = block else { continue };
            if let Some(frame) = self.frame(question, &seen, (group.at, &bytes))? {
                found.push(frame);
            }
        }
        Ok(bytes.len() as u64)
    }

    /// The frame of a block, if it is asked for.
    fn frame(
        &self,
        question: &Question,
        seen: &Seen<'_>,
        near: (u64, &[u8]),
    ) -> Result<Option<Frame>> {
        let link = usize::try_from(seen.interface).ok().and_then(|at| self.links.get(at));
        let Some(link) = link.filter(|name| question.has_link(name)) else { return Ok(None) };
        let (time_ns, order_ns) = (seen.time_ns, self.order(seen.time_ns));
        if !question.has_time(time_ns, order_ns) {
            return Ok(None);
        }
        let data = if seen.is_again() {
            match self.whole_frame(seen, near)? {
                Some(data) => data,
                // A damaged block has none.
                None => return Ok(None),
            }
        } else {
            seen.own.to_vec()
        };
        Ok(question.has_frame(&data, seen.original).then(|| Frame {
            time_ns,
            order_ns,
            link: Rc::clone(link),
            original: seen.original,
            flags: seen.flags,
            packet: self.number << 32 | seen.place,
            data,
        }))
    }

    fn whole_frame(&self, seen: &Seen<'_>, (from, near): (u64, &[u8])) -> Result<Option<Vec<u8>>> {
        let of = |block: Option<Block<'_>>| match block {
            Some(Block::Seen(stored)) if !stored.is_again() => seen.frame(stored.own).ok(),
            _ => None,
        };
        if let Some(at) = seen.place.checked_sub(from).and_then(|at| usize::try_from(at).ok()) {
            return Ok(of(blocks(near.get(at..).unwrap_or_default(), seen.place).next()));
        }
        let head = self.bytes(seen.place, 8)?;
        let length = head.last_chunk::<4>().map_or(0, |four| u32::from_le_bytes(*four));
        let length = usize::try_from(length).unwrap_or(0).min(MOST_BLOCK);
        Ok(of(blocks(&self.bytes(seen.place, length)?, seen.place).next()))
    }

    /// Bytes of the segment, as far as there are.
    fn bytes(&self, at: u64, length: usize) -> Result<std::borrow::Cow<'_, [u8]>> {
        let Some(whole) = &self.whole else {
            return Ok(read(&self.file, &self.path, at, length)?.into());
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(whole.len());
        let end = at.saturating_add(length).min(whole.len());
        Ok(whole.get(at..end).unwrap_or_default().into())
    }
}

fn order(time_ns: u64, index: &Index) -> i64 {
    time_ns.cast_signed().wrapping_sub(index.head.clock)
}

/// Whether a segment may have what is asked for, by little of its index.
fn may_answer(question: &Question, stored: &Stored) -> bool {
    let index = &stored.brief.index;
    let in_time =
        |group: &Group| question.has_some(group.first..=group.last, order(group.last, index));
    index.groups.iter().any(in_time) && question.keys().iter().all(|keys| stored.may_have(keys))
}

/// Whether a segment is of another start of the machine than this one: its boot time is another's.
fn is_of_other_start(file: &File, path: &std::path::Path) -> Result<bool> {
    let first = read(file, path, 0, HEAD_WITHIN)?;
    let head = blocks(&first, 0).find_map(|block| match block {
        Block::Head(head) => Some(head),
        _ => None,
    });
    let (own, of) = (start::number(), head.map_or(0, |head| head.start));
    Ok(own != 0 && of != 0 && own != of)
}

/// Up to `length` bytes of a file.
fn read(file: &File, path: &std::path::Path, at: u64, length: usize) -> Result<Vec<u8>> {
    let failed = Failure::of(path.display().to_string(), "read");
    // An index that was damaged or made up may ask for more than there is.
    let there = file.metadata().map_err(&failed)?.len().saturating_sub(at);
    let mut bytes = vec![0; length.min(usize::try_from(there).unwrap_or(usize::MAX))];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e).into()),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}
