//! The sending end of a ring.
//!
//! [`Outgoing::queue`] writes a frame; [`Outgoing::flush`] publishes everything written and wakes a
//! sleeping reader: one cheap call for one frame or many. A full ring makes
//! [`Outgoing::queue_wait`] wait, bounded; after the bound the edge is stalled and its frames are
//! refused at once until the reader moves. It never waits for ever, whatever the reader does.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::inbox::PeerInbox;
use crate::index::{PADDING, Produce, Reservation, Wait, slot_bytes};
use crate::layout::{HEADER, LONGEST_FRAME, PORTS, SHORTEST_FRAME, ring as at};
use crate::memory::Sealed;
use crate::ring::copy::copy;
use crate::sync::Ordering;
use crate::wake::{self, Bell};

/// Polls of a full ring before the first sleep: some microseconds, less than a sleep costs.
const LOOKS: u32 = 200;

/// Longest single sleep for room, which bounds the cost of a peer that does not wake us.
const SLICE: Duration = Duration::from_millis(10);

/// [`LONGEST_FRAME`] in a slot's type.
#[expect(clippy::cast_possible_truncation, reason = "a constant")]
const LONGEST: u32 = LONGEST_FRAME as u32;

/// The outcome for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring.
    Done,
    /// There was no room within the bound.
    Full,
    /// It is shorter or longer than a valid frame.
    Refused,
    /// The reader's side is invalid: close the edge.
    Corrupt,
}

/// A ring's memory, created by its sender, not connected yet.
#[derive(Debug)]
pub struct Writer {
    memory: Sealed,
    size: usize,
    generation: u32,
}

impl Writer {
    /// Creates a ring of `arena` bytes (a power of two within the limits of [`at`]). The
    /// `generation` is not 0 and differs from those of all earlier rings to the same receiver under
    /// the same number, including those of dead processes.
    ///
    /// # Errors
    /// [`Error::Memory`] for invalid arguments, else the kernel's error.
    pub fn create(arena: usize, generation: u32) -> Result<Writer> {
        let wrong = |reason| Err(Error::Memory { object: "ring", reason });
        if !arena.is_power_of_two() || !(at::LEAST_ARENA..=at::MOST_ARENA).contains(&arena) {
            return wrong("of a wrong length");
        }
        if generation == 0 {
            return wrong("of generation 0");
        }
        let length = at::ARENA_AT + arena;
        let memory = Sealed::create("netloom-ring", at::MAGIC, length, arena as u64)?;
        memory.half(at::GENERATION_AT).store(generation, Ordering::Relaxed);
        Ok(Writer { memory, size: arena, generation })
    }

    /// The descriptor to pass to the receiver, through the switch.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// The ring's generation.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Connects it to its receiver, by the receiver's inbox, our number there, and the edge's bell.
    ///
    /// # Errors
    /// [`Error::Memory`] if the number is invalid.
    pub fn connect(self, inbox: Arc<PeerInbox>, number: u16, bell: Bell) -> Result<Outgoing> {
        if usize::from(number) >= PORTS {
            return Err(Error::Memory { object: "ring", reason: "for no number of a port" });
        }
        let index = Produce::new(self.size as u64, self.generation);
        Ok(Outgoing { index, memory: self.memory, inbox, number, bell, stalled: None, waits: 0 })
    }
}

/// A connected ring: frames for one receiver.
pub struct Outgoing {
    index: Produce,
    memory: Sealed,
    inbox: Arc<PeerInbox>,
    number: u16,
    bell: Bell,
    /// The reader's tail when a wait last reached its bound.
    stalled: Option<u64>,
    waits: u64,
}

impl Outgoing {
    /// Writes a frame (header first) if there is room, without publishing it. `origin` is 0 except
    /// on rings of the switch.
    #[inline]
    pub fn queue(&mut self, origin: u16, frame: &[u8]) -> Pushed {
        let Some(length) = frame.len().checked_sub(HEADER) else { return Pushed::Refused };
        self.put(length, origin, |to| {
            // SAFETY: `put` gives room for header and frame, in memory that only we write.
            unsafe { copy(frame.as_ptr(), to, frame.len()) }
        })
    }

    /// Like [`Self::queue`], for a separate header and frame.
    #[inline]
    pub fn queue_parts(&mut self, origin: u16, header: &[u8; HEADER], frame: &[u8]) -> Pushed {
        self.put(frame.len(), origin, |to| {
            // SAFETY: `put` gives room for the header.
            unsafe { to.cast::<[u8; HEADER]>().write_unaligned(*header) };
            // SAFETY: after the header there is room for the frame.
            let behind = unsafe { to.add(HEADER) };
            // SAFETY: as above, in memory that only we write.
            unsafe { copy(frame.as_ptr(), behind, frame.len()) }
        })
    }

    /// Finds room for a frame of `length` bytes and lets `fill` write header and frame there.
    #[inline(always)]
    fn put(&mut self, length: usize, origin: u16, fill: impl FnOnce(*mut u8)) -> Pushed {
        if !(SHORTEST_FRAME..=LONGEST_FRAME).contains(&length) {
            return Pushed::Refused;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most LONGEST_FRAME")]
        let length = length as u32;
        let (inbox, number) = (&self.inbox, self.number);
        match self.index.place(length, || inbox.cell(number)) {
            Reservation::At { padding, at } => {
                if let Some(at) = padding {
                    // SAFETY: `place` returns offsets of slots inside the arena that the reader has
                    // finished with.
                    let slot = unsafe { self.slot(at) };
                    // SAFETY: a slot is aligned and has room for its header.
                    unsafe { slot.cast::<u32>().write(PADDING) };
                }
                // SAFETY: as above.
                let slot = unsafe { self.slot(at) };
                // SAFETY: a slot is aligned and has room for its header.
                unsafe { slot.cast::<[u32; 2]>().write([length, u32::from(origin).to_le()]) };
                // SAFETY: inside the slot's header.
                fill(unsafe { slot.add(at::VNET_AT) });
                self.index.written(length);
                Pushed::Done
            }
            Reservation::Full => Pushed::Full,
            Reservation::Corrupt => Pushed::Corrupt,
        }
    }

    /// The slot at an offset of the arena.
    ///
    /// # Safety
    /// The offset is inside the arena.
    #[inline(always)]
    unsafe fn slot(&self, offset: usize) -> *mut u8 {
        let base = self.memory.base();
        // SAFETY: the memory holds the arena after its first page.
        unsafe { base.as_ptr().add(at::ARENA_AT + offset) }
    }

    /// Publishes everything queued, and wakes a sleeping reader; true if it was woken.
    #[inline]
    pub fn flush(&mut self) -> bool {
        if !self.index.publish(self.memory.fast_word::<{ at::HEAD_AT }>()) {
            return false;
        }
        let wake = self.index.must_wake(self.inbox.sleep());
        if wake {
            self.bell.ring();
        }
        wake
    }

    /// Bytes of the arena queued and not published yet.
    #[inline]
    pub fn unpublished(&self) -> u64 {
        self.index.unpublished()
    }

    /// Bytes of the arena not known to be taken.
    #[inline]
    pub fn pending(&self) -> u64 {
        self.index.pending()
    }

    /// The position up to which the reader has taken the ring, read again; `None` if it is invalid.
    pub fn taken(&mut self) -> Option<u64> {
        self.index.taken(self.inbox.cell(self.number))
    }

    /// Bytes of the arena.
    pub fn size(&self) -> u64 {
        self.index.size()
    }

    /// Bytes written since the start, published or not.
    pub fn written(&self) -> u64 {
        self.index.head()
    }

    /// Frames, published or not, that the reader has not reported as taken; it reports at the
    /// latest when it has taken all.
    pub fn untaken(&mut self) -> u64 {
        let (mut at, head) = self.index.untaken(self.inbox.cell(self.number));
        let mut frames = 0;
        // A reader may have reported a position inside a slot: then the count is wrong, but ends.
        while at < head {
            let (offset, left) = self.index.position(at);
            // SAFETY: a position is inside the arena.
            let slot = unsafe { self.slot(offset) };
            // SAFETY: positions are multiples of a slot's alignment, with room for its header,
            // which only we write.
            let length = unsafe { slot.cast::<u32>().read() };
            if length == PADDING {
                at += left;
            } else {
                at += slot_bytes(length.min(LONGEST));
                frames += 1;
            }
        }
        frames
    }

    /// Like [`Self::queue`]; without room, publishes everything queued and waits for the reader, at
    /// most `bound`. If that was in vain the edge is stalled: it does not wait again until the
    /// reader has moved.
    #[inline]
    pub fn queue_wait(&mut self, origin: u16, frame: &[u8], bound: Duration) -> Pushed {
        match self.queue(origin, frame) {
            Pushed::Full => self.queue_slowly(origin, frame, bound),
            other => other,
        }
    }

    #[cold]
    fn queue_slowly(&mut self, origin: u16, frame: &[u8], bound: Duration) -> Pushed {
        // A reader takes only what is published: without this there would never be room.
        self.flush();
        if self.stalled == Some(self.index.tail()) {
            return Pushed::Full;
        }
        match self.wait(frame.len() - HEADER, bound) {
            Pushed::Done => {
                self.stalled = None;
                self.queue(origin, frame)
            }
            other => {
                self.stalled = Some(self.index.tail());
                other
            }
        }
    }

    /// Whether the last wait was in vain and the reader is not known to have moved since.
    pub fn is_stalled(&self) -> bool {
        self.stalled == Some(self.index.tail())
    }

    /// Number of waits for room.
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// The receiver's inbox.
    pub fn inbox(&self) -> &Arc<PeerInbox> {
        &self.inbox
    }

    /// The edge's bell.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The ring's memory, to pass it to a receiver again.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// Waits until there is room for a frame of `length` bytes: `Done`, `Full` or `Corrupt`.
    fn wait(&mut self, length: usize, bound: Duration) -> Pushed {
        #[expect(clippy::cast_possible_truncation, reason = "queue refuses longer ones")]
        let length = length as u32;
        self.waits += 1;
        let started = Instant::now();
        let mut looks = 0;
        loop {
            let waiting = self.memory.half(at::WAITING_AT);
            let found = self.index.start_wait(length, self.inbox.cell(self.number), waiting);
            let left = bound.saturating_sub(started.elapsed());
            match found {
                Wait::While(value) if !left.is_zero() => {
                    looks += 1;
                    match looks < LOOKS {
                        true => std::hint::spin_loop(),
                        false => {
                            let word = self.inbox.futex(self.number);
                            wake::sleep_while(word, value, left.min(SLICE));
                        }
                    }
                    continue;
                }
                _ => self.index.end_wait(waiting),
            }
            return match found {
                Wait::Room => Pushed::Done,
                Wait::While(_) => Pushed::Full,
                Wait::Corrupt => Pushed::Corrupt,
            };
        }
    }
}
