//! The blocks shared by a packet socket and this process.
//!
//! Invariant: the status word in a block's header says whether it is the kernel's or ours; the
//! other side reads only that word and the frame count. The kernel fills blocks in order and never
//! starts the next one before that is given back.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::contents::HEADER;
use crate::area::Mapping;
use crate::option;

/// Offsets of words in a block's header: `tpacket_hdr_v1` after two words.
const STATUS: usize = 8;
const COUNT: usize = 12;
const FIRST: usize = 16;

/// All blocks of a ring.
#[derive(Debug)]
pub(super) struct Blocks {
    memory: Mapping,
    size: usize,
    count: usize,
}

impl Blocks {
    /// Makes them the socket's ring for incoming frames, and maps them. `size` is a multiple of the
    /// page size, `timeout_ms` how long a frame may wait for others.
    pub(super) fn make(
        fd: &OwnedFd,
        size: usize,
        count: usize,
        timeout_ms: u32,
    ) -> io::Result<Blocks> {
        let wrong = || io::Error::from_raw_os_error(libc::EINVAL);
        let length = size.checked_mul(count).ok_or_else(wrong)?;
        let narrow = |value: usize| u32::try_from(value).map_err(|_| wrong());
        let (bytes, blocks) = (narrow(size)?, narrow(count)?);
        // struct tpacket_req3: block size, blocks, frame size, frames, timeout, private bytes,
        // features. Frames have their own lengths: one per block satisfies the kernel's arithmetic.
        let request = [bytes, blocks, bytes, blocks, timeout_ms.max(1), 0, 0];
        option::set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        Ok(Blocks { memory: Mapping::new(fd, length)?, size, count })
    }

    /// The next block, circularly.
    pub(super) fn after(&self, block: usize) -> usize {
        if block + 1 == self.count { 0 } else { block + 1 }
    }

    fn start(&self, block: usize) -> NonNull<u8> {
        debug_assert!(block < self.count);
        // SAFETY: blocks are below `self.count`, all of which are inside the mapping.
        unsafe { self.memory.start().add(block * self.size) }
    }

    /// A word of a block's header, at an offset that is a multiple of 4.
    fn word(&self, block: usize, at: usize) -> &AtomicU32 {
        debug_assert!(at < HEADER && at.is_multiple_of(4));
        // SAFETY: the header is part of the block.
        let word = unsafe { self.start(block).add(at) };
        // SAFETY: aligned, because blocks are whole pages; these words are only ever used as
        // atomics, here and by the kernel, and live as long as the mapping, which `self` keeps.
        unsafe { AtomicU32::from_ptr(word.cast().as_ptr()) }
    }

    /// Whether it is ours. Acquires what the kernel wrote before handing it over.
    pub(super) fn ours(&self, block: usize) -> bool {
        self.word(block, STATUS).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Number of frames in it, whichever side owns it.
    pub(super) fn frames(&self, block: usize) -> u32 {
        self.word(block, COUNT).load(Ordering::Relaxed)
    }

    /// Offset of its first frame. The block must be ours.
    pub(super) fn first(&self, block: usize) -> u32 {
        self.word(block, FIRST).load(Ordering::Relaxed)
    }

    /// Gives it back. All our reads of it come before.
    pub(super) fn give_back(&self, block: usize) {
        // Keeps `frames` right even before the kernel begins to fill it.
        self.word(block, COUNT).store(0, Ordering::Relaxed);
        self.word(block, STATUS).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// The bytes behind its header.
    ///
    /// # Safety
    /// The block must be ours, and must not be given back while the bytes are used.
    pub(super) unsafe fn bytes(&self, block: usize) -> &[u8] {
        // SAFETY: the header is part of the block.
        let start = unsafe { self.start(block).add(HEADER) };
        // SAFETY: the rest of the block, initialised by the kernel (zeros at first), which does not
        // touch it while it is ours: the caller's promise. Nobody writes to it here.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.size - HEADER) }
    }
}
