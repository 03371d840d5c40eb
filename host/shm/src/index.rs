//! The protocol of a ring's indexes: who may write or read which bytes when, who must be woken.
//!
//! No memory but its own: the shared words are arguments, the arena is positions. So the models
//! (`tests/ring_loom.rs`) run this code on loom's atomics. Positions run freely from 0 and are masked for
//! the arena; each side keeps its own in private and believes the other's only within limits.
//! Invariants: `tail ≤ head ≤ tail + size`; a slot never crosses the arena's end; bytes before
//! `head` are whole. Foreign words are loaded relaxed with a fence behind, since only that is
//! defined on memory that is mapped for reading. Specification: `docs/abi/switch-memory.md`.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, full_fence};

/// Bytes of a slot's header, and what slots are aligned to.
pub(crate) const SLOT: u64 = 16;

/// A slot's length that says: nothing here until the arena's end.
pub(crate) const PADDING: u32 = u32::MAX;

/// Bytes that a slot with a frame of `length` bytes takes.
#[inline(always)]
pub(crate) const fn slot_bytes(length: u32) -> u64 {
    (length as u64 + 2 * SLOT - 1) & !(SLOT - 1)
}

/// The credit cell of a ring, written by its reader.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// The generation of the ring that is read.
    pub generation: &'a AtomicU32,
    /// Bytes of it taken.
    pub tail: &'a AtomicU64,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this offset of the arena, after a padding slot at the other if there is one.
    At { padding: Option<usize>, at: usize },
    /// There is no room for it now.
    Full,
    /// The reader's tail cannot be.
    Corrupt,
}

/// How a writer's wait begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It does not: there is room.
    Room,
    /// Sleep while the low half of the cell's tail is this.
    While(u32),
    /// The reader's tail cannot be.
    Corrupt,
}

/// The writer's side.
pub(crate) struct Produce {
    size: u64,
    generation: u32,
    waiting: u32,
    head: u64,
    published: u64,
    tail: u64,
    woken: u64,
}

impl Produce {
    /// Of an empty ring of `size` bytes, a power of two.
    pub(crate) fn new(size: u64, generation: u32) -> Self {
        Produce { size, generation, waiting: 0, head: 0, published: 0, tail: 0, woken: 0 }
    }

    /// Where a frame of `length` bytes goes; it is written there, then [`Self::written`] is called.
    #[inline(always)]
    pub(crate) fn place<'a>(&mut self, length: u32, cell: impl FnOnce() -> Cell<'a>) -> Place {
        let (bytes, padding) = self.need(length);
        if self.head + padding + bytes - self.tail > self.size {
            match self.look(cell()) {
                Some(_) if self.head + padding + bytes - self.tail > self.size => {
                    return Place::Full;
                }
                Some(_) => {}
                None => return Place::Corrupt,
            }
        }
        let offset = self.offset(self.head);
        match padding {
            0 => Place::At { padding: None, at: offset },
            _ => Place::At { padding: Some(offset), at: 0 },
        }
    }

    /// The frame of `length` bytes stands where [`Self::place`] said.
    #[inline(always)]
    pub(crate) fn written(&mut self, length: u32) {
        let (bytes, padding) = self.need(length);
        self.head += padding + bytes;
    }

    /// Bytes of the slot, and of the padding before it.
    #[inline(always)]
    fn need(&self, length: u32) -> (u64, u64) {
        let bytes = slot_bytes(length);
        let left = self.size - (self.head & (self.size - 1));
        (bytes, if bytes > left { left } else { 0 })
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below the size, which fits memory")]
    fn offset(&self, position: u64) -> usize {
        (position & (self.size - 1)) as usize
    }

    /// Reads the reader's tail; gives the word as it stands there, or nothing if it cannot be.
    fn look(&mut self, cell: Cell<'_>) -> Option<u64> {
        let generation = cell.generation.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let tail = cell.tail.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        // Before the reader begins with this ring, and after it begins with another, the tail is
        // not ours; that of the moment between shows in a generation that has changed.
        if generation == self.generation
            && cell.generation.load(Ordering::Relaxed) == self.generation
        {
            let step = tail.wrapping_sub(self.tail);
            if step > self.published - self.tail || !tail.is_multiple_of(SLOT) {
                return None;
            }
            self.tail = tail;
        }
        Some(tail)
    }

    /// Bytes written and not published.
    #[inline(always)]
    pub(crate) fn unpublished(&self) -> u64 {
        self.head - self.published
    }

    /// Bytes that the reader is not known to have taken.
    #[inline(always)]
    pub(crate) fn pending(&self) -> u64 {
        self.head - self.tail
    }

    /// From where to where there are slots that are not known to be taken, looked up anew.
    pub(crate) fn untaken(&mut self, cell: Cell<'_>) -> (u64, u64) {
        // What cannot be is the next frame's matter.
        let _ = self.look(cell);
        (self.tail, self.head)
    }

    /// The reader's tail, looked up anew; nothing if it cannot be.
    pub(crate) fn taken(&mut self, cell: Cell<'_>) -> Option<u64> {
        self.look(cell).map(|_| self.tail)
    }

    /// Where in the arena a position is, and how many bytes there are behind it.
    pub(crate) fn position(&self, at: u64) -> (usize, u64) {
        (self.offset(at), self.size - (at & (self.size - 1)))
    }

    /// The reader's tail as last seen.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// Bytes written.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Bytes of the arena.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Makes all that was written visible; false if it was already.
    #[inline(always)]
    pub(crate) fn publish(&mut self, head: &AtomicU64) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        head.store(self.head, Ordering::Release);
        true
    }

    /// After [`Self::publish`]: whether the reader sleeps and has not been woken from this sleep.
    #[inline(always)]
    pub(crate) fn must_wake(&mut self, sleep: &AtomicU64) -> bool {
        // With the one in `fall_asleep`: either we see the epoch, or the reader sees the head.
        full_fence();
        let epoch = sleep.load(Ordering::Relaxed);
        if epoch.is_multiple_of(2) || epoch == self.woken {
            return false;
        }
        self.woken = epoch;
        true
    }

    /// Announces that the writer waits for room for a frame of `length` bytes. What was written is
    /// published, and its reader woken, before.
    pub(crate) fn start_wait(&mut self, length: u32, cell: Cell<'_>, waiting: &AtomicU32) -> Wait {
        self.waiting |= 1;
        waiting.store(self.waiting, Ordering::Relaxed);
        // With the one in `Consume::publish`: either we see the tail, or the reader sees us. If
        // both, the sleep does not begin, because the word has changed.
        full_fence();
        let Some(word) = self.look(cell) else { return Wait::Corrupt };
        let (bytes, padding) = self.need(length);
        if self.head + padding + bytes - self.tail <= self.size {
            return Wait::Room;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
        Wait::While(word as u32)
    }

    /// The wait is over, for whatever reason.
    pub(crate) fn end_wait(&mut self, waiting: &AtomicU32) {
        self.waiting = self.waiting.wrapping_add(self.waiting & 1);
        waiting.store(self.waiting, Ordering::Relaxed);
    }
}

/// What stands next in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A slot with a frame of `length` bytes at this offset of the arena; `lead` is its first word.
    Slot { at: usize, length: u32, lead: u64 },
    /// Nothing at the moment.
    Empty,
    /// Something that cannot be.
    Corrupt,
}

/// The reader's side.
pub(crate) struct Consume {
    size: u64,
    most: u32,
    head: u64,
    tail: u64,
    published: u64,
}

impl Consume {
    /// Of a ring of `size` bytes, a power of two, with frames of at most `most` bytes.
    pub(crate) fn new(size: u64, most: u32) -> Self {
        Consume { size, most, head: 0, tail: 0, published: 0 }
    }

    /// Takes over the cell: from now on it tells of this ring.
    pub(crate) fn begin(&self, cell: Cell<'_>, generation: u32) {
        // In between the cell belongs to no ring, so no writer takes another's tail for its own.
        cell.generation.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        cell.tail.store(self.tail, Ordering::Relaxed);
        cell.generation.store(generation, Ordering::Release);
    }

    /// The next slot; `lead` reads the first word of the slot at an offset, once.
    #[inline(always)]
    pub(crate) fn next(&mut self, head: &AtomicU64, lead: impl Fn(usize) -> u64) -> Next {
        if self.tail == self.head {
            match self.look(head) {
                Some(true) => {}
                Some(false) => return Next::Empty,
                None => return Next::Corrupt,
            }
        }
        let mut at = self.offset();
        let mut word = lead(at);
        if low(word) == PADDING {
            let skip = self.size - at as u64;
            // A padding slot is published with the slot behind it, which stands at the beginning.
            if at == 0 || skip >= self.head - self.tail {
                return Next::Corrupt;
            }
            self.tail += skip;
            at = 0;
            word = lead(at);
        }
        let length = low(word);
        let room = u64::min(self.head - self.tail, self.size - at as u64);
        if length > self.most || slot_bytes(length) > room {
            return Next::Corrupt;
        }
        Next::Slot { at, length, lead: word }
    }

    /// The slot with a frame of `length` bytes, which [`Self::next`] gave, has been read.
    #[inline(always)]
    pub(crate) fn taken(&mut self, length: u32) {
        self.tail += slot_bytes(length);
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below the size, which fits memory")]
    fn offset(&self) -> usize {
        (self.tail & (self.size - 1)) as usize
    }

    /// Reads the writer's head: whether there is more, or nothing if it cannot be.
    #[inline(always)]
    fn look(&mut self, head: &AtomicU64) -> Option<bool> {
        let found = head.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if found == self.head {
            return Some(false);
        }
        if found.wrapping_sub(self.tail) > self.size
            || !found.is_multiple_of(SLOT)
            || found < self.tail
        {
            return None;
        }
        self.head = found;
        Some(true)
    }

    /// Bytes taken.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// Bytes published until now; nothing if that cannot be.
    pub(crate) fn published(&self, head: &AtomicU64) -> Option<u64> {
        let found = head.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_possible = found >= self.tail && found - self.tail <= self.size;
        is_possible.then_some(found)
    }

    /// Whether a frame may be there, without taking it.
    #[inline(always)]
    pub(crate) fn has_more(&self, head: &AtomicU64) -> bool {
        self.tail != self.head || head.load(Ordering::Relaxed) != self.tail
    }

    /// Whether so much was taken that the writer should know: an eighth of the arena.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.tail - self.published >= self.size / 8
    }

    /// Tells the writer what was taken; true if it waits, and is to be woken.
    #[inline(always)]
    pub(crate) fn publish(&mut self, tail: &AtomicU64, waiting: &AtomicU32) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        tail.store(self.tail, Ordering::Release);
        // With the one in `start_wait`.
        full_fence();
        waiting.load(Ordering::Relaxed) % 2 == 1
    }
}

/// The length that a slot's first word says.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low(word: u64) -> u32 {
    word as u32
}

/// The reader is about to sleep: after this it looks at every ring again, then sleeps.
pub(crate) fn fall_asleep(sleep: &AtomicU64) {
    let epoch = sleep.load(Ordering::Relaxed);
    if epoch.is_multiple_of(2) {
        sleep.store(epoch + 1, Ordering::Relaxed);
    }
    // With the one in `Produce::must_wake`.
    full_fence();
}

/// The reader is awake: nobody needs to wake it.
pub(crate) fn wake_up(sleep: &AtomicU64) {
    let epoch = sleep.load(Ordering::Relaxed);
    if epoch % 2 == 1 {
        sleep.store(epoch + 1, Ordering::Relaxed);
    }
}
