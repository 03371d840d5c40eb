//! Writing a recording: the open segment, the ring of closed ones, the books.
//!
//! Frames are written as they are given, in whole blocks, through the page cache: what was written survives the process at
//! any moment. A write that fails ends the segment at its last whole block; its frames are counted as dropped, the oldest
//! segment gives its place, and the next frames begin a new segment.

use std::collections::VecDeque;
use std::fs::File;
use std::hash::RandomState;
use std::io::Write;

use netloom_pcap::{ng, run};
use netloom_sighting::{Head, Index, Kept, Segment};
use netloom_sys::clock;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::folder::{Folder, index_name, segment_name};
use crate::status::Books;
use crate::{LEAST_KEEP, Result, start};

/// A segment is an eighth of what may be kept, within these bounds.
const LEAST_SEGMENT: u64 = 256 << 10;
const MOST_SEGMENT: u64 = 64 << 20;

/// Blocks are written when this many bytes wait, and at the end of each run.
const WRITE: usize = 1 << 20;

/// Bytes of a sighting's block beside those of its frame, at most; and of the head of a segment with some hundred links.
const SIGHTING: u64 = 64;
const HEAD: u64 = 64 << 10;

/// A larger difference between two readings of realtime minus boot time is a step of the clock.
const STEP_NS: u64 = 10_000_000;

/// What segments say of themselves.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The program.
    pub application: String,
    /// The operating system.
    pub os: String,
    /// The lab.
    pub comment: String,
}

/// A link that is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its name in the lab.
    pub name: String,
    /// Where its frames are taken.
    pub description: String,
}

/// A recording that is being written.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    /// Held for its lock.
    lock: File,
    about: About,
    keep: u64,
    segment: u64,
    links: Vec<Link>,
    next: u64,
    /// Closed segments with their bytes, the oldest first.
    closed: VecDeque<(u64, u64)>,
    open: Option<Open>,
    hasher: RandomState,
    books: Books,
    trouble: Option<String>,
    /// Whether there is no room for the rest of this run.
    is_stuck: bool,
    /// The time of the last frame that gave way.
    gone_ns: u64,
    /// Realtime minus boot time, in nanoseconds.
    offset: fn() -> i64,
}

#[derive(Debug)]
struct Open {
    number: u64,
    file: File,
    segment: Segment<RandomState>,
    clock: i64,
    /// Blocks that are not written yet, and what they are.
    waiting: Vec<u8>,
    stored: u64,
    again: u64,
    /// Bytes on disk, of which the first ones were there from its beginning.
    written: u64,
    head: u64,
}

impl Store {
    /// Begins to write in a folder, after what is there. Indexes that a killed recorder did not write are made; what is
    /// more than may be kept goes.
    ///
    /// # Errors
    /// [`crate::Error::Busy`]; the folder cannot be read or written.
    pub fn open(folder: Folder, about: About, keep: u64) -> Result<Store> {
        Store::open_with(folder, about, keep, offset)
    }

    /// As [`Store::open`], with a clock: realtime minus boot time, in nanoseconds.
    pub(crate) fn open_with(
        mut folder: Folder,
        about: About,
        keep: u64,
        offset: fn() -> i64,
    ) -> Result<Store> {
        let lock = folder.lock_to_write()?;
        let keep = keep.max(LEAST_KEEP);
        let mut store = Store {
            lock,
            about,
            keep,
            segment: (keep / 8).clamp(LEAST_SEGMENT, MOST_SEGMENT),
            links: vec![],
            next: 1,
            closed: VecDeque::new(),
            open: None,
            hasher: RandomState::new(),
            books: Books::default(),
            trouble: None,
            is_stuck: false,
            gone_ns: folder.status().ok().flatten().map_or(0, |told| told.gone_ns),
            offset,
            folder,
        };
        store.folder.remove_strays()?;
        for number in store.folder.segments()? {
            store.next = number + 1;
            if let Some(bytes) = store.adopt(number) {
                store.closed.push_back((number, bytes));
            }
        }
        store.make_room(0)?;
        match store.begin(0) {
            // It records as soon as there is room.
            Err(error) if is_full(&error) => {
                store.give_way(&error);
            }
            begun => begun?,
        }
        Ok(store)
    }

    /// The folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Whether its folder is still there: what is written into one that was removed is found by nobody.
    pub fn is_there(&self) -> bool {
        self.folder.has_lock(&self.lock)
    }

    /// Adds a link; its number is for [`Store::append`].
    pub fn link(&mut self, link: Link) -> u32 {
        if let Some(known) = self.links.iter().position(|known| *known == link) {
            return u32::try_from(known).unwrap_or(u32::MAX);
        }
        if let Some(open) = &mut self.open {
            open.segment.link(&mut open.waiting, &block(&link));
        }
        self.links.push(link);
        u32::try_from(self.links.len() - 1).unwrap_or(u32::MAX)
    }

    /// Records a run of packet blocks. `links` has the number of the link for each interface of the run. What cannot be
    /// written is counted.
    pub fn append(&mut self, blocks: &[u8], links: &[u32]) {
        let now = (self.offset)();
        if self.open.as_ref().is_some_and(|open| open.clock.abs_diff(now) > STEP_NS) {
            self.close();
        }
        self.is_stuck = false;
        let mut rest = blocks;
        while !rest.is_empty() {
            let mut records = run::records(rest);
            for record in records.by_ref() {
                let link = usize::try_from(record.interface).ok().and_then(|at| links.get(at));
                self.add(link.copied().unwrap_or(u32::MAX), &record);
            }
            // Blocks of other kinds, such as padding, have none.
            rest = after(records.rest());
        }
        self.flush();
    }

    /// Where every frame given to it has gone, and the bytes on disk.
    pub fn books(&self) -> Books {
        self.books
    }

    /// Bytes on disk, and the number of segments.
    pub fn size(&self) -> (u64, usize) {
        let closed: u64 = self.closed.iter().map(|(_, bytes)| bytes).sum();
        let open = self.open.as_ref().map_or(0, |open| open.written);
        (closed + open, self.closed.len() + usize::from(self.open.is_some()))
    }

    /// The time of the last frame that gave way to newer ones, in nanoseconds since 1970 UTC; 0: none did.
    pub fn gone_ns(&self) -> u64 {
        self.gone_ns
    }

    /// Why the last write failed, if it did.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Ends the open segment.
    pub fn finish(&mut self) {
        self.close();
    }

    fn add(&mut self, link: u32, record: &run::Record<'_>) {
        // A sighting has no more bytes, beside those of its block.
        let more = record.bytes.len() as u64 + SIGHTING;
        let is_full = |open: &Open| {
            let bytes = open.segment.bytes();
            bytes > open.head && bytes + more > self.segment
        };
        if self.open.as_ref().is_some_and(is_full) {
            self.close();
        }
        if self.open.is_none()
            && !self.is_stuck
            && let Err(error) = self.begin(more)
        {
            self.is_stuck = !self.give_way(&error);
        }
        let Some(open) = &mut self.open else {
            self.books.dropped.disk += 1;
            return;
        };
        match open.segment.add(&mut open.waiting, link, record) {
            Kept::Stored => open.stored += 1,
            Kept::Again => open.again += 1,
        }
        if open.waiting.len() >= WRITE {
            self.flush();
        }
    }

    /// Begins a segment, with its head: it can be read from the start. `first` is the length of its first block in bytes.
    fn begin(&mut self, first: u64) -> Result<()> {
        // A block may be larger than a usual segment. The index is smaller than half of the segment: a frame takes at least 76
        // bytes in the segment, and in the index at most six keys of four bytes each and 12 bits of filter for each key.
        let bytes = self.segment.max(first + HEAD);
        self.make_room(bytes + bytes / 2)?;
        let number = self.next;
        let (clock, mut first) = ((self.offset)(), vec![]);
        let about = ng::Section {
            application: &self.about.application,
            os: &self.about.os,
            hardware: None,
            comment: Some(&self.about.comment),
        };
        let head = Head { number, clock, start: start::number() };
        let mut segment = Segment::begin(&mut first, head, &about, self.hasher.clone());
        self.links.iter().for_each(|link| segment.link(&mut first, &block(link)));
        let name = segment_name(number);
        self.folder.write(&name, &first)?;
        let file = self.folder.dir().open_file(&name, OFlags::WRONLY | OFlags::APPEND)?;
        self.next += 1;
        let written = first.len() as u64;
        self.open = Some(Open {
            number,
            file,
            segment,
            clock,
            waiting: vec![],
            stored: 0,
            again: 0,
            written,
            head: written,
        });
        Ok(())
    }

    /// Writes what waits.
    fn flush(&mut self) {
        let Some(open) = &mut self.open else { return };
        if open.waiting.is_empty() {
            return;
        }
        match open.file.write_all(&open.waiting) {
            Ok(()) => {
                open.written += open.waiting.len() as u64;
                self.books.stored += open.stored;
                self.books.again += open.again;
                (open.stored, open.again) = (0, 0);
                open.waiting.clear();
                self.trouble = None;
            }
            Err(error) => {
                self.books.dropped.disk += open.stored + open.again;
                let name = self.folder.dir().path_of(segment_name(open.number));
                let error = netloom_sys::Failure::path(name, "write", error).into();
                self.abandon();
                self.give_way(&error);
            }
        }
    }

    /// Ends the open segment after its last whole block: its index would say more than is there.
    fn abandon(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open.written == open.head || open.file.set_len(open.written).is_err() {
            // It has no frames, or its end cannot be trusted.
            drop(self.folder.remove(open.number));
        } else {
            self.closed.push_back((open.number, open.written));
        }
    }

    /// Tells why nothing can be written. On a full disk, the oldest segment gives way; it would not help against another
    /// failure. Returns whether one did.
    fn give_way(&mut self, error: &crate::Error) -> bool {
        self.trouble = Some(netloom_sys::describe(error));
        if is_full(error)
            && self.closed.len() > 1
            && let Some((oldest, _)) = self.closed.pop_front()
        {
            return self.let_go(oldest).is_ok();
        }
        false
    }

    /// Removes a segment to make room.
    fn let_go(&mut self, number: u64) -> Result<()> {
        let last = self
            .folder
            .index(number)
            .and_then(|stored| stored.brief.index.groups.iter().map(|group| group.last).max());
        self.folder.remove(number)?;
        self.gone_ns = self.gone_ns.max(last.unwrap_or(0));
        Ok(())
    }

    /// Ends the open segment, and writes its index. One without frames goes.
    fn close(&mut self) {
        self.flush();
        let Some(open) = self.open.take() else { return };
        let (number, written) = (open.number, open.written);
        let index = open.segment.finish();
        if index.groups.is_empty() && self.folder.remove(number).is_ok() {
            return;
        }
        let index = index.encode();
        // Without an index the segment is read instead.
        let indexed = self.folder.write(&index_name(number), &index).is_ok();
        let more = if indexed { index.len() as u64 } else { 0 };
        self.closed.push_back((number, written + more));
    }

    /// Removes the oldest segments until `more` bytes fit.
    fn make_room(&mut self, more: u64) -> Result<()> {
        let mut total: u64 = self.closed.iter().map(|(_, bytes)| bytes).sum();
        while total + more > self.keep
            && let Some((oldest, bytes)) = self.closed.pop_front()
        {
            self.let_go(oldest)?;
            total -= bytes;
        }
        Ok(())
    }

    /// Takes over a segment of an earlier recorder; returns its bytes with its index. `None`: it had no frames, and is gone.
    fn adopt(&self, number: u64) -> Option<u64> {
        let dir = self.folder.dir();
        let length = |name: &str| dir.status(name).map_or(0, |found| found.st_size.unsigned_abs());
        let bytes = length(&segment_name(number));
        // It has at most 64 MiB; what cannot be read has no index.
        if !dir.has(index_name(number))
            && let Some(content) = dir.read(segment_name(number)).ok().flatten()
        {
            let index = Index::of(&content);
            // One of another version is not known to be empty.
            let is_empty = index.as_ref().map_or(content.is_empty(), |i| i.groups.is_empty());
            if is_empty && self.folder.remove(number).is_ok() {
                return None;
            }
            if let Some(index) = index {
                // Without it, as on a full disk, the segment is read instead.
                drop(self.folder.write(&index_name(number), &index.encode()));
            }
        }
        Some(bytes + length(&index_name(number)))
    }
}

/// Whether there is no room on the disk, or none for this user.
fn is_full(error: &crate::Error) -> bool {
    let number = match error {
        crate::Error::Sys(error) => error.raw_os_error(),
        crate::Error::Failed(failure) => failure.raw_os_error(),
        _ => None,
    };
    [Errno::NOSPC, Errno::DQUOT].iter().any(|full| number == Some(full.raw_os_error()))
}

/// What follows the first block.
fn after(blocks: &[u8]) -> &[u8] {
    let length =
        blocks.get(4..).and_then(<[u8]>::first_chunk).map(|four| u32::from_le_bytes(*four));
    let length =
        length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length >= 12);
    length.and_then(|length| blocks.get(length..)).unwrap_or_default()
}

/// Realtime minus boot time, in nanoseconds.
fn offset() -> i64 {
    clock::offset(clock::realtime, clock::boot_time)
}

fn block(link: &Link) -> ng::Interface<'_> {
    ng::Interface { name: &link.name, description: &link.description, ..ng::Interface::default() }
}
