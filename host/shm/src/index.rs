//! The protocol of a ring's indexes: which side may write or read which bytes when, and which must be woken.
//!
//! This code owns no shared memory: shared words are arguments, the arena is positions. So the models
//! (`tests/ring_loom.rs`) run it on loom's atomics. Positions run freely from 0 and are
//! masked for the arena; each side keeps its own privately and trusts the other's only within limits.
//! Invariants: `tail ≤ head ≤ tail + size`; a slot never crosses the arena's end; bytes before `head`
//! are complete. Foreign words are loaded relaxed and followed by a fence, since only that is defined
//! on memory mapped read-only. Specification: `docs/abi/switch-memory.md`.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, full_fence};

/// Bytes of a slot's header, and the alignment of slots.
pub(crate) const SLOT: u64 = 16;

/// A slot length that marks padding up to the arena's end.
pub(crate) const PADDING: u32 = u32::MAX;

/// Size in bytes of the slot of a frame of `length` bytes.
#[inline(always)]
pub(crate) const fn slot_bytes(length: u32) -> u64 {
    (length as u64 + 2 * SLOT - 1) & !(SLOT - 1)
}

/// The credit cell of a ring, written by its reader.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// The generation of the ring being read.
    pub generation: &'a AtomicU32,
    /// Bytes taken from it.
    pub tail: &'a AtomicU64,
}

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// At offset `at` of the arena, after a padding slot at `padding` if there is one.
    At { padding: Option<usize>, at: usize },
    /// There is no room now.
    Full,
    /// The reader's tail is invalid.
    Corrupt,
}

/// The start of a writer's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No wait: there is room.
    Room,
    /// Sleep while the low half of the cell's tail is this.
    While(u32),
    /// The reader's tail is invalid.
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
    /// The side of an empty ring of `size` bytes, a power of two.
    pub(crate) fn new(size: u64, generation: u32) -> Self {
        Produce { size, generation, waiting: 0, head: 0, published: 0, tail: 0, woken: 0 }
    }

    /// The place of a frame of `length` bytes; after writing it, call [`Self::written`].
    #[inline(always)]
    pub(crate) fn place<'a>(
        &mut self,
        length: u32,
        cell: impl FnOnce() -> Cell<'a>,
    ) -> Reservation {
        let (bytes, padding) = self.need(length);
        // The reader's word is in another processor's cache: read only where the known tail leaves
        // no room.
        if self.head + padding + bytes - self.tail > self.size {
            match self.look(cell()) {
                Some(_) if self.head + padding + bytes - self.tail > self.size => {
                    return Reservation::Full;
                }
                Some(_) => {}
                None => return Reservation::Corrupt,
            }
        }
        let offset = self.offset(self.head);
        match padding {
            0 => Reservation::At { padding: None, at: offset },
            _ => Reservation::At { padding: Some(offset), at: 0 },
        }
    }

    /// Records that the frame of `length` bytes is at the place from [`Self::place`].
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

    /// Reads the reader's tail; returns the raw word, or `None` if it is invalid.
    fn look(&mut self, cell: Cell<'_>) -> Option<u64> {
        let generation = cell.generation.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let tail = cell.tail.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        // Before the reader begins with this ring, and after it begins with another, the tail is
        // not ours; a changed generation reveals a switch in between.
        if generation == self.generation
            && cell.generation.load(Ordering::Relaxed) == self.generation
        {
            let step = tail.wrapping_sub(self.tail);
            // A reader cannot have taken more than was published, and takes whole slots.
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

    /// Bytes not known to be taken.
    #[inline(always)]
    pub(crate) fn pending(&self) -> u64 {
        self.head - self.tail
    }

    /// The range of slots not known to be taken, read again.
    pub(crate) fn untaken(&mut self, cell: Cell<'_>) -> (u64, u64) {
        // The next frame handles an invalid tail.
        let _ = self.look(cell);
        (self.tail, self.head)
    }

    /// The reader's tail, read again; `None` if it is invalid.
    pub(crate) fn taken(&mut self, cell: Cell<'_>) -> Option<u64> {
        self.look(cell).map(|_| self.tail)
    }

    /// A position's offset in the arena, and the number of bytes behind it.
    pub(crate) fn position(&self, at: u64) -> (usize, u64) {
        (self.offset(at), self.size - (at & (self.size - 1)))
    }

    /// The last known tail of the reader.
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

    /// Publishes everything written; false if it was published already.
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
        // Pairs with the fence in `fall_asleep`: either we see the epoch, or the reader sees the head.
        full_fence();
        let epoch = sleep.load(Ordering::Relaxed);
        if epoch.is_multiple_of(2) || epoch == self.woken {
            return false;
        }
        self.woken = epoch;
        true
    }

    /// Announces that the writer waits for room for a frame of `length` bytes. Everything written
    /// must be published, and its reader woken, before.
    pub(crate) fn start_wait(&mut self, length: u32, cell: Cell<'_>, waiting: &AtomicU32) -> Wait {
        self.waiting |= 1;
        waiting.store(self.waiting, Ordering::Relaxed);
        // Pairs with the fence in `Consume::publish`: either we see the tail, or the reader sees
        // us. If both, the sleep does not begin, because the word has changed.
        full_fence();
        let Some(word) = self.look(cell) else { return Wait::Corrupt };
        let (bytes, padding) = self.need(length);
        if self.head + padding + bytes - self.tail <= self.size {
            return Wait::Room;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
        Wait::While(word as u32)
    }

    /// Ends the wait, for whatever reason.
    pub(crate) fn end_wait(&mut self, waiting: &AtomicU32) {
        self.waiting = self.waiting.wrapping_add(self.waiting & 1);
        waiting.store(self.waiting, Ordering::Relaxed);
    }
}

/// The next content of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A slot with a frame of `length` bytes at this offset of the arena; `lead` is its first word.
    Slot { at: usize, length: u32, lead: u64 },
    /// Nothing now.
    Empty,
    /// Invalid content.
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
    /// The side of a ring of `size` bytes, a power of two, with frames of at most `most` bytes.
    pub(crate) fn new(size: u64, most: u32) -> Self {
        Consume { size, most, head: 0, tail: 0, published: 0 }
    }

    /// Takes over the cell: from now on it describes this ring.
    pub(crate) fn begin(&self, cell: Cell<'_>, generation: u32) {
        // In between the cell belongs to no ring, so no writer mistakes another ring's tail for its own.
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
            // A padding slot is published together with the slot after it, at the arena's beginning.
            if at == 0 || skip >= self.head - self.tail {
                return Next::Corrupt;
            }
            self.tail += skip;
            at = 0;
            word = lead(at);
        }
        let length = low(word);
        // The length is the sender's word: the slot must end before the head and inside the arena.
        let room = u64::min(self.head - self.tail, self.size - at as u64);
        if length > self.most || slot_bytes(length) > room {
            return Next::Corrupt;
        }
        Next::Slot { at, length, lead: word }
    }

    /// Records that the slot with a frame of `length` bytes, from [`Self::next`], has been read.
    #[inline(always)]
    pub(crate) fn taken(&mut self, length: u32) {
        self.tail += slot_bytes(length);
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below the size, which fits memory")]
    fn offset(&self) -> usize {
        (self.tail & (self.size - 1)) as usize
    }

    /// Reads the writer's head: whether there is more, or `None` if it is invalid.
    #[inline(always)]
    fn look(&mut self, head: &AtomicU64) -> Option<bool> {
        let found = head.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if found == self.head {
            return Some(false);
        }
        // More than an arena holds, or a step back: no correct writer does that.
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

    /// Bytes published so far; `None` if invalid.
    pub(crate) fn published(&self, head: &AtomicU64) -> Option<u64> {
        let found = head.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_possible = found >= self.tail && found - self.tail <= self.size;
        is_possible.then_some(found)
    }

    /// Whether a frame may be present, without taking it.
    #[inline(always)]
    pub(crate) fn has_more(&self, head: &AtomicU64) -> bool {
        // Relaxed: a frame is read only behind the fence of `look`.
        self.tail != self.head || head.load(Ordering::Relaxed) != self.tail
    }

    /// Whether enough was taken to tell the writer: an eighth of the arena.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        // Each publication moves a line of the cache between two processors.
        self.tail - self.published >= self.size / 8
    }

    /// Publishes the tail to the writer; true if the writer waits and must be woken.
    #[inline(always)]
    pub(crate) fn publish(&mut self, tail: &AtomicU64, waiting: &AtomicU32) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        tail.store(self.tail, Ordering::Release);
        // Pairs with the fence in `start_wait`.
        full_fence();
        waiting.load(Ordering::Relaxed) % 2 == 1
    }
}

/// The length in a slot's first word.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low(word: u64) -> u32 {
    word as u32
}

/// Announces that the reader will sleep: it then checks every ring again, then sleeps.
pub(crate) fn fall_asleep(sleep: &AtomicU64) {
    // Relaxed: only the owner writes this word.
    let epoch = sleep.load(Ordering::Relaxed);
    if epoch.is_multiple_of(2) {
        sleep.store(epoch + 1, Ordering::Relaxed);
    }
    // Pairs with the fence in `Produce::must_wake`.
    full_fence();
}

/// Announces that the reader is awake: nobody needs to wake it.
pub(crate) fn wake_up(sleep: &AtomicU64) {
    let epoch = sleep.load(Ordering::Relaxed);
    if epoch % 2 == 1 {
        // Unordered: a sender that still sees the old epoch rings once in vain.
        sleep.store(epoch + 1, Ordering::Relaxed);
    }
}
