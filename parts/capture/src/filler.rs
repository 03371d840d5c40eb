//! Fills chunks of memory with an engine's frames, for the writer.
//!
//! A frame is copied once, as its block in the file. Frames without memory are counted, and the
//! next block reports them. Invariants: a chunk holds only whole blocks, followed by room to pad it
//! to the next edge of direct I/O.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use netloom_disk::Buffer;
use netloom_pcap::ng;
use netloom_pcap::run::{self, Record};

use crate::merge::SLICE;
use crate::queue::{Chunk, Share};
use crate::record::{self, Extra, Frame};
use crate::shared::{Shared, Slot};
use netloom_sys::clock;

/// A chunk in progress goes to an idle writer after this time.
pub(crate) const LIVE: Duration = Duration::from_millis(200);

/// A block with more options than flags exceeds frame and comment by at most this many bytes.
const MOST_EXTRA: usize = 128;

/// The chunk that is being filled.
struct Filling {
    buffer: Buffer,
    len: usize,
    frames: u64,
    since: u64,
    epoch: u64,
    /// The time of the last block, and whether all blocks so far are in time order.
    last: u64,
    sorted: bool,
}

impl Filling {
    #[inline]
    fn note(&mut self, frames: u64, first: u64, last: u64) {
        self.frames += frames;
        self.sorted &= self.last <= first;
        self.last = last;
    }
}

/// Counts not yet published.
#[derive(Default)]
struct Tally {
    captured: u64,
    bytes: u64,
    truncated: u64,
    beyond: u64,
    lost: u64,
    filled: u64,
}

/// Takes the frames of one capture thread.
pub struct Filler {
    shared: Arc<Shared>,
    source: usize,
    thread: usize,
    interface: u32,
    snaplen: u32,
    filling: Option<Filling>,
    extra: Extra,
    tally: Tally,
    scratch: Vec<u8>,
    /// When this thread's progress was last marked, if interfaces are merged.
    marked: u64,
    /// Whether its thread is called when frames come elsewhere.
    is_called: bool,
}

impl Filler {
    pub(crate) fn new(shared: Arc<Shared>, source: usize, thread: usize, snaplen: u32) -> Filler {
        Filler {
            shared,
            source,
            thread,
            interface: u32::try_from(source).unwrap_or(u32::MAX),
            snaplen,
            filling: None,
            extra: Extra::default(),
            tally: Tally::default(),
            scratch: Vec::new(),
            marked: 0,
            is_called: false,
        }
    }

    /// Readable when the thread is to come back from its wait.
    pub fn call(&self) -> Option<BorrowedFd<'_>> {
        self.slot().call().filter(|_| self.is_called)
    }

    pub(crate) fn set_called(&mut self, is_called: bool) {
        self.is_called = is_called;
    }

    /// Adds a frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        let (len, kept) = record::len(frame, self.snaplen);
        let with_extra = self.extra.is_any();
        let most = if with_extra { kept + self.extra_room() } else { len };
        if !self.may_take(most) {
            return;
        }
        if with_extra {
            return self.frame_with_extra(frame, kept);
        }
        let interface = self.interface;
        let Some(place) = self.place(len) else {
            self.lose(1);
            return;
        };
        record::put(place, interface, frame, kept);
        self.note(frame.time_ns, frame.original, kept, len);
    }

    /// Whether a frame is wanted and has room.
    fn may_take(&mut self, len: usize) -> bool {
        if self.shared.wanted.is_none() {
            // `place` finds the room.
            return true;
        }
        if self.is_over() {
            return false;
        }
        // Before it counts: one that is lost is none of the wanted number.
        if self.room_for(len).is_none() {
            self.lose(1);
            return false;
        }
        self.is_wanted()
    }

    /// Adds packet blocks as `netloom_pcap::run` defines them, all of one interface, in order. They
    /// are copied unchanged if they have this interface's number in the file. Bytes from the first
    /// invalid block on are dropped; returns whether all were valid.
    pub fn run(&mut self, blocks: &[u8]) -> bool {
        let mut rest = blocks;
        while !rest.is_empty() {
            let plain = self.is_plain() && self.is_ours(rest);
            let taken = if plain { self.copy_run(rest) } else { self.take_one(rest) };
            match rest.get(taken..) {
                Some(left) if taken > 0 => rest = left,
                _ => return false,
            }
        }
        true
    }

    /// Adds one block of a run, like [`Filler::run`].
    pub fn record(&mut self, block: &Record<'_>) {
        if self.is_plain() && block.interface == self.interface {
            let len = block.bytes.len();
            let Some(place) = self.place(len) else {
                self.lose(1);
                return;
            };
            place.copy_from_slice(block.bytes);
            self.note(block.time_ns, block.original, block.data.len(), len);
        } else {
            self.take_block(block);
        }
    }

    /// Notes lost frames, which the next block reports.
    pub(crate) fn note_drops(&mut self, frames: u64) {
        self.extra.drops += frames;
    }

    /// Sets the comment of the next block.
    pub(crate) fn note_comment(&mut self, comment: String) {
        self.extra.comment = Some(comment);
    }

    /// Appends a block other than a frame, if there is memory.
    pub(crate) fn block(&mut self, block: &[u8]) {
        if let Some(place) = self.place(block.len()) {
            place.copy_from_slice(block);
        }
    }

    /// To be called after each round: publishes counters, and hands due chunks to the writer.
    /// `taken`: all frames with an earlier time were taken, if known.
    pub(crate) fn settle(&mut self, taken: Option<u64>) {
        self.show();
        if self.shared.merges {
            return self.settle_merged(taken);
        }
        let Some(filling) = &self.filling else { return };
        let aged = u128::from(clock::monotonic() - filling.since) >= LIVE.as_nanos();
        // A writer that is busy gets full chunks only: each early one costs a block of padding.
        if filling.epoch != self.shared.epoch() || (aged && self.shared.queue.is_idle()) {
            self.seal();
        }
    }

    /// The same if interfaces are merged: a chunk in progress is handed over every slice, unless
    /// one still waits for the writer.
    fn settle_merged(&mut self, taken: Option<u64>) {
        let now = clock::monotonic();
        let due = u128::from(now - self.marked) >= SLICE.as_nanos() && !self.is_queued();
        let over = self.filling.as_ref().is_some_and(|f| f.epoch != self.shared.epoch());
        if over || (due && taken.is_some()) {
            self.seal();
        }
        // While a chunk is in progress, frames taken before are not in the queue yet.
        if let (None, Some(taken)) = (&self.filling, taken) {
            // Pairs with the load in `Shared::mark`: who sees
            // this mark finds all earlier chunks in the queue.
            self.slot().mark.store(taken, Ordering::Release);
            self.marked = now;
        }
    }

    /// Whether a chunk of this thread waits for the writer.
    fn is_queued(&self) -> bool {
        // A hint: if the writer has just taken the chunk,
        // the next one is handed over a round later.
        self.slot().queued.load(Ordering::Relaxed) > 0
    }

    /// Time until [`Filler::settle`] has something to do.
    pub(crate) fn until_due(&self) -> Option<Duration> {
        if self.shared.merges {
            let age = Duration::from_nanos(clock::monotonic().saturating_sub(self.marked));
            let due = self.filling.is_some() && !self.is_queued();
            // At least a millisecond, so that the wait does not become polling.
            return due.then(|| SLICE.saturating_sub(age).max(Duration::from_millis(1)));
        }
        let since = self.filling.as_ref()?.since;
        let age = Duration::from_nanos(clock::monotonic().saturating_sub(since));
        Some(LIVE.saturating_sub(age).max(Duration::from_millis(1)))
    }

    /// Hands the chunk in progress to the writer.
    pub(crate) fn seal(&mut self) {
        let Some(filling) = self.filling.take() else { return };
        let Filling { buffer, len, frames, epoch, last, sorted, .. } = filling;
        if len == 0 {
            // Another thread took the last wanted frame while room was found for one. The memory goes back with `buffer`.
            return;
        }
        if self.shared.merges {
            // Before the push, since the writer counts it down as soon as it has the chunk.
            self.slot().queued.fetch_add(1, Ordering::Relaxed);
        }
        let (thread, shares) = (self.thread, vec![Share { source: self.source, frames }]);
        self.shared.queue.push(Chunk { buffer, len, shares, thread, epoch, last, sorted });
    }

    /// Marks the time before which nothing more comes from this thread.
    pub(crate) fn mark(&self, time: u64) {
        self.slot().mark.store(time, Ordering::Release);
    }

    /// Publishes the counts.
    pub(crate) fn show(&mut self) {
        let tally = std::mem::take(&mut self.tally);
        let slot = self.slot();
        // Memory that runs out while the disk is full was lost to the disk.
        let lost = if self.shared.full.load(Ordering::Relaxed) { &slot.disk } else { &slot.memory };
        for (counter, value) in [
            (&slot.captured, tally.captured),
            (&slot.bytes, tally.bytes),
            (&slot.truncated, tally.truncated),
            (&slot.beyond, tally.beyond),
            (lost, tally.lost),
            (&slot.filled, tally.filled),
        ] {
            if value != 0 {
                counter.fetch_add(value, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.shared.accounts[self.source].slots[self.thread]
    }

    /// Whether blocks may be copied unchanged.
    fn is_plain(&self) -> bool {
        // With a limit every frame is counted by itself.
        !self.extra.is_any() && self.shared.wanted.is_none()
    }

    /// Whether blocks have this interface's number in the file.
    fn is_ours(&self, blocks: &[u8]) -> bool {
        run::records(blocks).next().is_none_or(|first| first.interface == self.interface)
    }

    /// Copies as many whole blocks as the chunk has room for; returns the number of bytes handled.
    fn copy_run(&mut self, blocks: &[u8]) -> usize {
        let Some(first) = run::records(blocks).next() else { return 0 };
        let Some(room) = self.room_for(first.bytes.len()) else {
            let len = first.bytes.len();
            self.lose(1);
            return len;
        };
        let (mut end, mut frames, mut last, mut sorted) = (0, 0, first.time_ns, true);
        for block in run::records(blocks) {
            if end + block.bytes.len() > room {
                break;
            }
            end += block.bytes.len();
            frames += 1;
            sorted &= last <= block.time_ns;
            last = block.time_ns;
            self.tally.bytes += u64::from(block.original);
            self.tally.truncated += u64::from(block.captured < block.original);
        }
        if let Some(place) = self.place(end) {
            place.copy_from_slice(&blocks[..end]);
        }
        self.tally.captured += frames;
        self.tally.filled += end as u64;
        if let Some(filling) = &mut self.filling {
            filling.note(frames, first.time_ns, last);
            filling.sorted &= sorted;
        }
        end
    }

    /// Adds the first block of a run by its parts.
    fn take_one(&mut self, blocks: &[u8]) -> usize {
        let Some(block) = run::records(blocks).next() else { return 0 };
        self.take_block(&block);
        block.bytes.len()
    }

    fn take_block(&mut self, block: &Record<'_>) {
        self.frame(&Frame {
            time_ns: block.time_ns,
            original: block.original,
            data: block.data,
            tag: None,
            flags: flags(block),
        });
    }

    #[cold]
    fn frame_with_extra(&mut self, frame: &Frame<'_>, kept: usize) {
        if self.room_for(kept + self.extra_room()).is_none() {
            return self.lose(1);
        }
        // Taken out for a while, because `place` borrows all of this.
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        record::with_extra(&mut scratch, self.interface, frame, kept, &self.extra);
        match self.place(scratch.len()) {
            Some(place) => {
                place.copy_from_slice(&scratch);
                self.extra = Extra::default();
                self.note(frame.time_ns, frame.original, kept, scratch.len());
            }
            None => self.lose(1),
        }
        self.scratch = scratch;
    }

    fn note(&mut self, time: u64, original: u32, kept: usize, len: usize) {
        self.tally.captured += 1;
        self.tally.bytes += u64::from(original);
        self.tally.truncated += u64::from(kept < usize::try_from(original).unwrap_or(usize::MAX));
        self.tally.filled += len as u64;
        if let Some(filling) = &mut self.filling {
            filling.note(1, time, time);
        }
    }

    fn lose(&mut self, frames: u64) {
        self.tally.lost += frames;
        self.extra.drops += frames;
    }

    /// Bytes that a block needs beyond its frame, at most.
    fn extra_room(&self) -> usize {
        self.extra.comment.as_ref().map_or(0, String::len) + MOST_EXTRA
    }

    /// Whether all wanted frames were taken.
    fn is_over(&mut self) -> bool {
        let over =
            self.shared.wanted.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) <= 0);
        self.tally.beyond += u64::from(over);
        over
    }

    /// Whether one more frame is wanted. The last wanted one ends the capture.
    fn is_wanted(&mut self) -> bool {
        let Some(wanted) = &self.shared.wanted else { return true };
        // Relaxed: the number alone is shared. It falls
        // below 0 when threads take the last frames at once.
        let left = wanted.fetch_sub(1, Ordering::Relaxed);
        if left <= 1 {
            self.shared.end(crate::End::Packets);
        }
        self.tally.beyond += u64::from(left <= 0);
        left > 0
    }

    /// Room for a block in the current chunk, or in the next one.
    fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        self.room_for(len)?;
        let filling = self.filling.as_mut()?;
        let start = filling.len;
        filling.len += len;
        filling.buffer.get_mut(start..start + len)
    }

    /// Room for a run of blocks whose first has `len` bytes; `None` if there is no memory.
    fn room_for(&mut self, len: usize) -> Option<usize> {
        let usable = self.shared.chunk - ng::PADDING_LEAST;
        let used = self.filling.as_ref().map_or(0, |filling| filling.len);
        if used + len > usable {
            self.seal();
        }
        if self.filling.is_none() {
            let buffer = (len <= usable).then(|| self.shared.pool.take()).flatten()?;
            let (since, epoch) = (clock::monotonic(), self.shared.epoch());
            self.filling =
                Some(Filling { buffer, len: 0, frames: 0, since, epoch, last: 0, sorted: true });
        }
        Some(usable - self.filling.as_ref().map_or(0, |filling| filling.len))
    }
}

impl std::fmt::Debug for Filler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filler").field("interface", &self.interface).finish_non_exhaustive()
    }
}

/// The flags of a block without other options, if any.
fn flags(block: &Record<'_>) -> u32 {
    // An enhanced packet block has 28 bytes before its data,
    // which is padded to 32 bits (draft-ietf-opsawg-pcapng, 4.3).
    let at = 28 + block.data.len().next_multiple_of(4);
    match block.bytes.get(at..at + 8) {
        // Option 2, epb_flags, of 4 bytes.
        Some([2, 0, 4, 0, a, b, c, d]) => u32::from_le_bytes([*a, *b, *c, *d]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use netloom_disk::Pool;

    use super::*;
    use crate::rotation::Rotation;
    use crate::shared::Account;

    /// Frames that are lost for lack of memory are none of the wanted number.
    #[test]
    fn as_many_frames_as_are_wanted_find_memory() {
        let (chunk, wanted) = (4096, 12);
        let accounts = vec![Account::new(1)];
        let pool = Pool::new(chunk, 4096);
        let shared = Shared::new(pool, chunk, accounts, Rotation::default(), Some(wanted));
        let shared = Arc::new(shared);
        let mut filler = Filler::new(Arc::clone(&shared), 0, 0, 0);
        let data = [7; 1000];
        let frame = Frame { original: 1000, data: &data, ..Frame::default() };
        let mut written = 0;
        let mut write = |shared: &Shared| {
            while let crate::queue::Next::Chunk(chunk) = shared.queue.next(Duration::ZERO) {
                written += chunk.shares[0].frames;
            }
        };
        // The writer comes for a chunk after every tenth frame.
        let mut offered = 0_u64;
        while !shared.is_stopping() {
            filler.frame(&frame);
            offered += 1;
            assert!(offered < 1000, "the wanted number is not reached");
            if offered.is_multiple_of(10) {
                filler.seal();
                write(&shared);
            }
        }
        for _ in 0..3 {
            filler.frame(&frame);
        }
        filler.show();
        filler.seal();
        write(&shared);
        let ledger = shared.accounts[0].ledger();
        assert_eq!((written, ledger.captured), (wanted, wanted));
        assert!(offered > wanted);
        assert_eq!((ledger.lost.memory, ledger.filtered), (offered - wanted, 3));
    }
}
