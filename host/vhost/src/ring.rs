//! A split virtqueue, from the device's side: VIRTIO 1.3, section 2.7.
//!
//! Buffers are taken and returned in the order in which the guest made them available. Everything in the ring may
//! change at any moment: each word is read once, checked, and then used from here. A guest that breaks the ring's own
//! rules (an index that jumped, a chain that does not exist) stops that queue until its driver or front end sets it up
//! again; a malformed chain is returned unused.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};

use rustix::fs::OFlags;

use crate::features::Features;
use crate::memory::{Memory, Part, Span};

/// Most descriptors of a queue.
pub(crate) const MOST_SIZE: u32 = 32_768;
/// Most descriptors of a chain, in any table.
const MOST_CHAIN: usize = 1024;

const DESCRIPTOR: usize = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Flag of both rings: do not notify.
const QUIET: u16 = 1;

/// Which way the buffers of a queue go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferDirection {
    /// The guest writes them.
    FromGuest,
    /// We write them.
    ToGuest,
}

/// Why no chain was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The chain is malformed, and was taken: return it.
    Chain(u16),
    /// The ring is, and is stopped.
    Ring,
}

/// The three areas of a queue.
#[derive(Debug)]
struct Areas {
    descriptors: Part,
    available: Part,
    used: Part,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Ring {
    way: BufferDirection,
    size: u16,
    /// The areas' addresses in the front end: descriptors, available, used.
    addresses: Option<[u64; 3]>,
    areas: Option<Areas>,
    event_index: bool,
    indirect: bool,
    /// The next entry of the available ring.
    next: u16,
    /// The available ring's index when it was last read.
    seen: u16,
    /// The used ring's index, and what of it the guest can see.
    used: u16,
    shown: u16,
    /// The used index at the last decision about a wake-up.
    signalled: Option<u16>,
    kick: Option<File>,
    call: Option<File>,
    error: Option<File>,
    enabled: bool,
    broken: bool,
}

/// A descriptor of the front end's whose writes fail instead of waiting: it may be a full pipe. An eventfd whose counter is
/// full wakes its reader without the write.
fn without_waiting(file: File) -> File {
    if let Ok(flags) = rustix::fs::fcntl_getfl(&file) {
        // What cannot be set shows at the write, whose errors mean nothing here either.
        let _ = rustix::fs::fcntl_setfl(&file, flags | OFlags::NONBLOCK);
    }
    file
}

impl Ring {
    pub(crate) fn new(way: BufferDirection) -> Ring {
        Ring {
            way,
            size: 0,
            addresses: None,
            areas: None,
            event_index: false,
            indirect: false,
            next: 0,
            seen: 0,
            used: 0,
            shown: 0,
            signalled: None,
            kick: None,
            call: None,
            error: None,
            enabled: false,
            broken: false,
        }
    }

    /// Sets the number of descriptors; `None` if no queue may have it.
    pub(crate) fn set_size(&mut self, size: u32) -> Option<()> {
        if size > MOST_SIZE || !size.is_power_of_two() {
            return None;
        }
        self.size = u16::try_from(size).ok()?;
        // Their lengths were for the former size.
        self.areas = None;
        Some(())
    }

    pub(crate) fn set_addresses(&mut self, addresses: [u64; 3], memory: &Memory) -> Option<()> {
        self.addresses = Some(addresses);
        self.broken = false;
        self.place(memory)
    }

    /// Finds the areas in the memory, which may be new; `None` if they are not in it.
    pub(crate) fn place(&mut self, memory: &Memory) -> Option<()> {
        let running = self.areas.take().is_some();
        let Some([descriptors, available, used]) = self.addresses else { return Some(()) };
        let size = usize::from(self.size);
        // Lengths and alignments of VIRTIO 1.3, section 2.7, with the event indexes behind the
        // entries.
        let areas = Areas {
            descriptors: memory.part(descriptors, DESCRIPTOR * size, 16)?,
            available: memory.part(available, 6 + 2 * size, 2)?,
            used: memory.part(used, 6 + 8 * size, 4)?,
        };
        // A ring that ran keeps its own count: the guest can write the one in memory.
        if !running {
            self.used = areas.used.load(2, Ordering::Acquire);
            self.shown = self.used;
            self.signalled = None;
        }
        self.areas = Some(areas);
        Some(())
    }

    pub(crate) fn set_base(&mut self, base: u16) {
        // Nothing before it counts as seen: the next look reads how far the guest has come.
        (self.next, self.seen) = (base, base);
    }

    pub(crate) fn set_features(&mut self, features: Features) {
        self.event_index = features.event_index();
        self.indirect = features.indirect();
    }

    pub(crate) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    pub(crate) fn set_kick(&mut self, kick: Option<File>) {
        self.kick = kick;
        self.broken = false;
        // Buffers that were available before the queue started get no further kick.
        self.signalled = None;
    }

    pub(crate) fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().map(File::as_fd)
    }

    pub(crate) fn set_call(&mut self, call: Option<File>) {
        self.call = call.map(without_waiting);
        self.signalled = None;
    }

    pub(crate) fn set_error(&mut self, error: Option<File>) {
        self.error = error.map(without_waiting);
    }

    /// Stops it; returns the next available entry, from which it may continue.
    pub(crate) fn stop(&mut self) -> u16 {
        // First, while there is a ring: what was taken is returned.
        self.show();
        self.kick = None;
        self.call = None;
        self.areas = None;
        self.next
    }

    /// Whether it carries frames.
    #[inline]
    pub(crate) fn runs(&self) -> bool {
        self.enabled && !self.broken && self.areas.is_some() && self.kick.is_some()
    }

    /// Whether the driver has it set up, though it may be disabled just now.
    pub(crate) fn is_set_up(&self) -> bool {
        self.areas.is_some() && self.kick.is_some()
    }

    /// How many chains are available, as far as was read.
    fn waiting(&self) -> u16 {
        self.seen.wrapping_sub(self.next)
    }

    /// Reads how many chains there are; breaks the ring if there are more than can be.
    fn look(&mut self) -> Result<bool, Fault> {
        let Some(areas) = &self.areas else { return Ok(false) };
        // Acquire: the driver wrote the entries before this index.
        self.seen = areas.available.load(2, Ordering::Acquire);
        if self.waiting() > self.size {
            return Err(self.break_down());
        }
        Ok(self.waiting() > 0)
    }

    /// Stops the queue for good, and tells the front end if it wants to know.
    fn break_down(&mut self) -> Fault {
        self.broken = true;
        if let Some(error) = &self.error {
            let _ = rustix::io::write(error, &1_u64.to_ne_bytes());
        }
        Fault::Ring
    }

    /// Takes the next chain: its number, and its buffers in `spans`. `None` if there is none.
    #[inline]
    pub(crate) fn take(
        &mut self,
        memory: &Memory,
        spans: &mut Vec<Span>,
    ) -> Result<Option<u16>, Fault> {
        if self.waiting() == 0 && !self.look()? {
            return Ok(None);
        }
        let Some(areas) = &self.areas else { return Ok(None) };
        let entry = usize::from(self.next & (self.size - 1));
        // Relaxed, because the acquire in `look` comes before it.
        let head = areas.available.load(4 + 2 * entry, Ordering::Relaxed);
        if head >= self.size {
            return Err(self.break_down());
        }
        let walk = Walk { memory, way: self.way, indirect: self.indirect };
        let good = walk.chain(&areas.descriptors, self.size, head, spans);
        // Also past a malformed chain, which the caller returns.
        self.next = self.next.wrapping_add(1);
        if good.is_some() { Ok(Some(head)) } else { Err(Fault::Chain(head)) }
    }

    /// Puts back the chains taken last: the next ones are these again.
    pub(crate) fn put_back(&mut self, chains: u16) {
        self.next = self.next.wrapping_sub(chains);
    }

    /// Returns a chain of which `length` bytes were written. The guest sees it after [`Ring::show`].
    #[inline]
    pub(crate) fn give(&mut self, head: u16, length: u32) {
        let Some(areas) = &self.areas else { return };
        let entry = usize::from(self.used & (self.size - 1));
        // The guest may read it once `show` has stored the index after it.
        areas.used.store_pair(4 + 8 * entry, [u32::from(head), length]);
        self.used = self.used.wrapping_add(1);
    }

    /// Returned chains that the guest does not see yet.
    #[inline]
    pub(crate) fn unshown(&self) -> u16 {
        self.used.wrapping_sub(self.shown)
    }

    /// Shows the guest what was returned, and wakes it if it wants to be woken.
    pub(crate) fn show(&mut self) {
        if self.unshown() == 0 {
            return;
        }
        let Some(areas) = &self.areas else { return };
        areas.used.store(2, self.used, Ordering::Release);
        self.shown = self.used;
        // The guest stores what it wants to hear of and then looks at the index: one of the two sees the other.
        fence(Ordering::SeqCst);
        let before = self.signalled.replace(self.used);
        let wanted = if self.event_index {
            let event = areas.available.load(4 + 2 * usize::from(self.size), Ordering::Relaxed);
            // `vring_need_event` of the standard: whether the event lies in what is new;
            // differences wrap.
            let reached = self.used.wrapping_sub(event).wrapping_sub(1);
            before.is_none_or(|before| reached < self.used.wrapping_sub(before))
        } else {
            areas.available.load(0, Ordering::Relaxed) & QUIET == 0
        };
        if wanted && let Some(call) = &self.call {
            let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
        }
    }

    /// Asks for a kick with the next chain that is not seen yet; returns whether there is work already.
    pub(crate) fn rest(&mut self) -> bool {
        let Some(areas) = &self.areas else { return false };
        if self.event_index {
            areas.used.store(4 + 8 * usize::from(self.size), self.seen, Ordering::Relaxed);
        } else {
            areas.used.store(0, 0, Ordering::Relaxed);
        }
        // The request comes before the look: the guest sees it, or its new chain is seen here.
        fence(Ordering::SeqCst);
        let more = areas.available.load(2, Ordering::Acquire) != self.seen;
        more || (self.way == BufferDirection::FromGuest && self.waiting() > 0)
    }

    /// Takes back that request: kicks cost the guest more than they tell us while we look anyway.
    pub(crate) fn wake(&mut self) {
        if let Some(areas) = &self.areas
            && !self.event_index
        {
            areas.used.store(0, QUIET, Ordering::Relaxed);
        }
    }
}

/// A walk along a chain.
struct Walk<'a> {
    memory: &'a Memory,
    way: BufferDirection,
    indirect: bool,
}

/// A descriptor.
struct Descriptor {
    address: u64,
    length: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    #[inline]
    fn parse(bytes: [u8; 16]) -> Descriptor {
        let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, c0, c1, d0, d1] = bytes;
        Descriptor {
            address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            length: u32::from_le_bytes([b0, b1, b2, b3]),
            flags: u16::from_le_bytes([c0, c1]),
            next: u16::from_le_bytes([d0, d1]),
        }
    }
}

impl Walk<'_> {
    /// Collects a chain's buffers; `None` if it is malformed. It ends after as many steps as its table has entries.
    #[inline]
    fn chain(&self, table: &Part, size: u16, head: u16, spans: &mut Vec<Span>) -> Option<()> {
        spans.clear();
        let mut at = head;
        // A chain longer than the queue has a loop.
        for _ in 0..usize::from(size).min(MOST_CHAIN) {
            let found = Descriptor::parse(table.read_16(DESCRIPTOR * usize::from(at)));
            if found.flags & INDIRECT != 0 {
                // It ends the chain: a driver must not set NEXT beside it.
                let alone = self.indirect && found.flags & NEXT == 0;
                return alone.then(|| self.table(&found, spans)).flatten();
            }
            self.note(&found, spans)?;
            if found.flags & NEXT == 0 {
                return Some(());
            }
            if found.next >= size {
                return None;
            }
            at = found.next;
        }
        None
    }

    /// The same in a table of its own.
    fn table(&self, of: &Descriptor, spans: &mut Vec<Span>) -> Option<()> {
        let length = usize::try_from(of.length).ok()?;
        let entries = length / DESCRIPTOR;
        if length == 0 || !length.is_multiple_of(DESCRIPTOR) || entries > MOST_CHAIN {
            return None;
        }
        let table = self.memory.span(of.address, of.length)?;
        let mut at = 0;
        for _ in 0..entries {
            let mut bytes = [0; DESCRIPTOR];
            self.memory.read(table.skip(DESCRIPTOR * at), &mut bytes);
            let found = Descriptor::parse(bytes);
            // No table within a table (VIRTIO 1.3, 2.7.5.3).
            if found.flags & INDIRECT != 0 {
                return None;
            }
            self.note(&found, spans)?;
            if found.flags & NEXT == 0 {
                return Some(());
            }
            at = usize::from(found.next);
            if at >= entries {
                return None;
            }
        }
        None
    }

    #[inline]
    fn note(&self, found: &Descriptor, spans: &mut Vec<Span>) -> Option<()> {
        let writes = found.flags & WRITE != 0;
        if writes != (self.way == BufferDirection::ToGuest) {
            return None;
        }
        // An empty buffer may have any address.
        if found.length > 0 {
            spans.push(self.memory.span(found.address, found.length)?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_descriptor_of_the_front_end_holds_nobody() {
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
        rustix::fs::fcntl_setfl(&writer, OFlags::empty()).unwrap();
        let mut ring = Ring::new(BufferDirection::ToGuest);
        ring.set_error(Some(File::from(writer)));
        assert_eq!(ring.break_down(), Fault::Ring);
    }
}
