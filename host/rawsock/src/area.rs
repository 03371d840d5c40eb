//! Slots of a ring in memory shared with the kernel, with their status words.
//!
//! Invariant: only a slot's owner, by its status word, touches the slot.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// The unit that is divided into slots: large, so that little is left over, and small enough for
/// the kernel to allocate in one piece.
pub(crate) const BLOCK: u32 = 1 << 20;

/// Memory shared with the kernel, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, whatever thread uses it, and stays until it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: it is only an address range; the slots' status words rule which side may touch what in it.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(fd: &OwnedFd, length: usize) -> std::io::Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel replaces no memory of others.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, fd, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Mapping { start, length })
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this start and length, and nobody uses a part of it any more:
        // rings lend slots only while they live, and they keep this value.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The slots of one ring.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) memory: Arc<Mapping>,
    pub(crate) from: usize,
    pub(crate) slot: usize,
    pub(crate) per_block: usize,
    pub(crate) slots: usize,
}

impl Area {
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes of a slot.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// The next slot, circularly.
    pub(crate) fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots { 0 } else { slot + 1 }
    }

    fn start(&self, slot: usize) -> NonNull<u8> {
        debug_assert!(slot < self.slots);
        let block = (slot / self.per_block) * BLOCK as usize;
        let offset = self.from + block + (slot % self.per_block) * self.slot;
        // SAFETY: slots are below `self.slots`, all of which are inside this mapping.
        unsafe { self.memory.start.add(offset) }
    }

    /// A slot's status word.
    fn word(&self, slot: usize) -> &AtomicU32 {
        let at = self.start(slot).cast::<u32>().as_ptr();
        // SAFETY: the word is the slot's first, aligned because slots are multiples of 16 bytes; it
        // is only ever used as an atomic, here and by the kernel, and lives as long as the mapping.
        unsafe { AtomicU32::from_ptr(at) }
    }

    /// The slot's status, which names its owner. Acquires what the kernel wrote before handing it over.
    pub(crate) fn status(&self, slot: usize) -> u32 {
        self.word(slot).load(Ordering::Acquire)
    }

    /// Hands the slot over. Releases what was written before to the kernel.
    pub(crate) fn hand_over(&self, slot: usize, status: u32) {
        self.word(slot).store(status, Ordering::Release);
    }

    /// The header at a slot's start. The slot must be ours.
    pub(crate) fn header(&self, slot: usize) -> libc::tpacket2_hdr {
        let at = self.start(slot).cast::<libc::tpacket2_hdr>().as_ptr();
        // SAFETY: a slot begins with this structure, aligned, and any bytes are a valid value;
        // volatile, because the kernel may write to it against the rules.
        unsafe { at.read_volatile() }
    }

    /// The bytes of a slot behind its header. The slot must be ours.
    pub(crate) fn bytes(&mut self, slot: usize) -> &mut [u8] {
        let length = self.slot - DATA;
        // SAFETY: the header is part of the slot.
        let start = unsafe { self.start(slot).add(DATA) };
        // SAFETY: the rest of the slot, initialised by the kernel (zeros at first). By the status
        // word's rule the kernel does not touch it while it is ours, and no other process maps the
        // ring of a socket that was passed to us. `&mut self` excludes use of this ring's other
        // slots meanwhile, and rings do not overlap.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }

    /// Sets the length of the frame in a slot.
    pub(crate) fn set_length(&mut self, slot: usize, length: u32) {
        // SAFETY: the second word of the header, inside the slot.
        let at = unsafe { self.start(slot).cast::<u32>().add(1) };
        // SAFETY: aligned like the first word; the slot is ours.
        unsafe { at.write_volatile(length) };
    }

    /// Copies the frame of a slot, `length` bytes, to another. Both must be ours.
    pub(crate) fn copy(&mut self, from: usize, to: usize, length: usize) {
        debug_assert!(from != to && length <= self.slot - DATA);
        // SAFETY: the header is part of the slot.
        let source = unsafe { self.start(from).add(DATA) };
        // SAFETY: as above.
        let target = unsafe { self.start(to).add(DATA) };
        // SAFETY: both are ours, are different slots, and hold that much.
        unsafe { source.copy_to_nonoverlapping(target, length) };
    }
}

/// Earliest offset of a slot's data, and that of outgoing frames: behind the aligned header.
pub(crate) const DATA: usize = 32;

const _: () = assert!(size_of::<libc::tpacket2_hdr>() <= DATA);
