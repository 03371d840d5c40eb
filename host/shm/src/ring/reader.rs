//! The receiving end of a ring.
//!
//! The sender may write anything at any moment. So the head is checked for plausibility, a slot's
//! first word is read once and checked, and bytes are copied before anyone interprets them: the
//! worst a sender can do is to send frames of its own making, or to lose its edge.

use std::os::fd::BorrowedFd;

use crate::error::{Error, Result};
use crate::inbox::Inbox;
use crate::index::{Consume, Next};
use crate::layout::{HEADER, LENGTH_AT, LONGEST_FRAME, PORTS, ring as at};
use crate::memory::Foreign;
use crate::ring::copy::copy;
use crate::sync::{AtomicU64, Ordering};
use crate::wake;

/// The outcome of reading a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A frame with its header: `buffer[start..start + length]`.
    Frame {
        /// Offset of the header.
        start: usize,
        /// Length in bytes, including the header.
        length: usize,
        /// The slot's origin; trusted only on rings of the switch.
        origin: u16,
    },
    /// A frame that did not fit the buffer: it is lost.
    Truncated {
        /// Its length in bytes, including the header.
        length: usize,
    },
    /// Nothing now.
    Empty,
    /// Invalid content. This is permanent: close the edge.
    Corrupt,
}

/// A ring received from a sender.
pub struct Reader {
    index: Consume,
    memory: Foreign,
    sender: u16,
    generation: u32,
    corrupt: bool,
}

impl Reader {
    /// Maps a sender's ring, and announces in the sender's cell of our inbox that we read it from now on.
    ///
    /// # Errors
    /// [`Error::Memory`] if it is not a ring, or there is no such sender number.
    pub fn open(fd: BorrowedFd<'_>, sender: u16, inbox: &Inbox) -> Result<Reader> {
        let wrong = |reason| Err(Error::Memory { object: "ring", reason });
        if usize::from(sender) >= PORTS {
            return wrong("of no number of a port");
        }
        let (least, most) = (at::LEAST_ARENA + at::ARENA_AT, at::MOST_ARENA + at::ARENA_AT);
        let memory = Foreign::open("ring", fd, at::MAGIC, least, most)?;
        let size = memory.length() - at::ARENA_AT;
        let declared = memory.word(LENGTH_AT).load(Ordering::Relaxed);
        if !size.is_power_of_two() || declared != size as u64 {
            return wrong("of a wrong length");
        }
        let generation = memory.half(at::GENERATION_AT).load(Ordering::Relaxed);
        if generation == 0 {
            return wrong("of generation 0");
        }
        #[expect(clippy::cast_possible_truncation, reason = "a constant")]
        let index = Consume::new(size as u64, LONGEST_FRAME as u32);
        index.begin(inbox.cell(sender), generation);
        Ok(Reader { index, memory, sender, generation, corrupt: false })
    }

    /// The sender's number.
    pub fn sender(&self) -> u16 {
        self.sender
    }

    /// The generation stated by the ring.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Takes the next frame into `buffer`. The sender learns of taken bytes when they reach an
    /// eighth of the ring, or when the ring is empty.
    #[inline]
    pub fn take(&mut self, inbox: &Inbox, buffer: &mut [u8]) -> Taken {
        if self.corrupt {
            return Taken::Corrupt;
        }
        let memory = &self.memory;
        let head = memory.fast_word::<{ at::HEAD_AT }>();
        match self.index.next(head, |offset| lead(memory, offset)) {
            Next::Slot { at, length, lead } => {
                let whole = HEADER + length as usize;
                // From the word that was checked: a second read could give another.
                let origin = u16::from_le_bytes([lead.to_le_bytes()[4], lead.to_le_bytes()[5]]);
                let fits = whole <= buffer.len();
                debug_assert!(at + at::SLOT + whole <= memory.length() - at::ARENA_AT + HEADER);
                if fits {
                    // SAFETY: `next` returns slots inside the arena.
                    let slot = unsafe { slot(memory, at) };
                    // SAFETY: inside the slot's header.
                    let from = unsafe { slot.add(at::VNET_AT) };
                    // SAFETY: `next` checked that the slot with all its bytes is inside the arena,
                    // and the buffer's length was checked. The peer may write the bytes meanwhile:
                    // they are plain bytes, of any value, read once.
                    unsafe { copy(from, buffer.as_mut_ptr(), whole) };
                }
                self.index.taken(length);
                if self.index.is_due() {
                    self.settle(inbox);
                }
                match fits {
                    true => Taken::Frame { start: 0, length: whole, origin },
                    false => Taken::Truncated { length: whole },
                }
            }
            Next::Empty => {
                self.settle(inbox);
                Taken::Empty
            }
            Next::Corrupt => {
                self.corrupt = true;
                Taken::Corrupt
            }
        }
    }

    /// Publishes what was taken to the sender, and wakes it if it waits for room.
    #[inline]
    pub fn settle(&mut self, inbox: &Inbox) {
        let cell = inbox.cell(self.sender);
        if self.index.publish(cell.tail, self.memory.half(at::WAITING_AT)) {
            wake::wake(inbox.futex(self.sender));
        }
    }

    /// The sender's position so far: when [`Self::taken`] reaches it, everything published before
    /// was taken. `None` if the sender's head is invalid, which the next take reports.
    pub fn shown(&self) -> Option<u64> {
        self.index.published(self.memory.fast_word::<{ at::HEAD_AT }>())
    }

    /// Bytes of the ring taken since its start.
    pub fn taken(&self) -> u64 {
        self.index.tail()
    }

    /// Whether the ring is closed because of invalid content.
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }

    /// Whether a frame may be present: for the check between [`Inbox::fall_asleep`] and the sleep.
    #[inline]
    pub fn has_more(&self) -> bool {
        !self.corrupt && self.index.has_more(self.memory.fast_word::<{ at::HEAD_AT }>())
    }
}

/// The slot at an offset of the arena.
///
/// # Safety
/// The offset is inside the arena.
#[inline(always)]
unsafe fn slot(memory: &Foreign, offset: usize) -> *const u8 {
    // SAFETY: the memory holds the arena after its first page.
    unsafe { memory.base().as_ptr().add(at::ARENA_AT + offset) }
}

/// The first word of the slot at an offset of the arena.
#[inline(always)]
fn lead(memory: &Foreign, offset: usize) -> u64 {
    debug_assert!(offset.is_multiple_of(at::SLOT) && offset < memory.length() - at::ARENA_AT);
    // SAFETY: the indexes return multiples of a slot's size below the arena's size.
    let slot = unsafe { slot(memory, offset) };
    // SAFETY: mapped, aligned, and accessed by atomics; loads of this size are defined on memory
    // mapped read-only.
    unsafe { &*slot.cast::<AtomicU64>() }.load(Ordering::Relaxed)
}
