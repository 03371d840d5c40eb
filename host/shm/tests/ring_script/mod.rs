//! A hostile peer, driven by bytes: it writes what they say into memory of its own, and our end of
//! the edge must stay within its limits. Used by tests and by the fuzz target `ring`.
//!
//! The first byte chooses our end: a reader of its ring, a writer that believes its inbox, or one
//! who looks at its tables and its page. Then follow steps, one byte each with their operands.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use netloom_shm::inbox::{Counter, Inbox, PeerInbox};
use netloom_shm::layout::{self, HEADER, LONGEST_FRAME};
use netloom_shm::page::PeerPage;
use netloom_shm::ring::{Pushed, Reader, Taken, Writer};
use netloom_shm::wake::Bell;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of the arenas.
pub(crate) const ARENA: usize = layout::ring::LEAST_ARENA;

/// Memory that is sealed as it must be, and that its owner writes at will.
pub(crate) struct Hostile {
    base: NonNull<u8>,
    length: usize,
    pub(crate) fd: OwnedFd,
}

impl Hostile {
    /// With a legal beginning.
    pub(crate) fn new(magic: u32, length: usize, declared: u64) -> Hostile {
        let memory = Hostile::unsealed(magic, length, declared);
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory.fd, seals).expect("seals");
        memory
    }

    /// The same without seals.
    pub(crate) fn unsealed(magic: u32, length: usize, declared: u64) -> Hostile {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("hostile", flags).expect("a memfd");
        rustix::fs::ftruncate(&fd, length as u64).expect("its size");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, &fd, 0)
        };
        let base = NonNull::new(base.expect("a mapping").cast()).expect("not at 0");
        let memory = Hostile { base, length, fd };
        memory.put_half(layout::MAGIC_AT, magic);
        memory.put_half(layout::VERSION_AT, layout::VERSION);
        memory.put(layout::LENGTH_AT, declared);
        memory
    }

    /// A ring's.
    pub(crate) fn ring(generation: u32) -> Hostile {
        let length = layout::ring::ARENA_AT + ARENA;
        let memory = Hostile::new(layout::ring::MAGIC, length, ARENA as u64);
        memory.put_half(layout::ring::GENERATION_AT, generation);
        memory
    }

    /// An inbox's.
    pub(crate) fn inbox() -> Hostile {
        let length = layout::inbox::LENGTH;
        Hostile::new(layout::inbox::MAGIC, length, length as u64)
    }

    /// Writes a word; the offset is brought into the memory.
    pub(crate) fn put(&self, offset: usize, word: u64) {
        let offset = offset % self.length / 8 * 8;
        // SAFETY: inside the mapping.
        let place = unsafe { self.base.add(offset) };
        // SAFETY: aligned, and accessed by atomics only.
        unsafe { place.cast::<AtomicU64>().as_ref() }.store(word, Ordering::Release);
    }

    /// Writes half a word; the offset is brought into the memory.
    pub(crate) fn put_half(&self, offset: usize, word: u32) {
        let offset = offset % self.length / 4 * 4;
        // SAFETY: inside the mapping.
        let place = unsafe { self.base.add(offset) };
        // SAFETY: aligned, and accessed by atomics only.
        unsafe { place.cast::<AtomicU32>().as_ref() }.store(word, Ordering::Release);
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // SAFETY: mapped by `unsealed`; nothing refers to it any more.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) }.expect("unmapped");
    }
}

/// The steps, read from bytes; behind their end everything is 0.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let mut value = [0; N];
        let count = N.min(self.0.len());
        let (now, rest) = self.0.split_at(count);
        value[..count].copy_from_slice(now);
        self.0 = rest;
        value
    }

    fn byte(&mut self) -> u8 {
        self.next::<1>()[0]
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.next())
    }

    fn half(&mut self) -> u32 {
        u32::from_le_bytes(self.next())
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.next())
    }
}

/// Runs the steps; panics if our end does what it must not.
pub(crate) fn run(bytes: &[u8]) {
    let mut script = Script(bytes);
    match script.byte() % 3 {
        0 => read(script),
        1 => write(script),
        _ => look(script),
    }
}

/// Our end reads a ring.
fn read(mut script: Script<'_>) {
    let ring = Hostile::ring(1);
    let inbox = Inbox::create().expect("an inbox");
    let mut reader = Reader::open(ring.fd.as_fd(), 3, &inbox).expect("a legal ring");
    let mut head = 0_u64;
    let at = layout::ring::HEAD_AT;
    let arena = layout::ring::ARENA_AT;
    while !script.0.is_empty() {
        match script.byte() % 8 {
            0 => {
                head = head.wrapping_add(u64::from(script.short()));
                ring.put(at, head);
            }
            1 => {
                head = script.word();
                ring.put(at, head);
            }
            2 => ring.put_half(arena + usize::from(script.short()) * 16, script.half()),
            3 => ring.put(usize::from(script.short() % 4096), script.word()),
            4 | 5 => {
                // What a legal sender would write, as long as nothing else was done.
                let length = u32::from(script.short());
                let slot = (u64::from(length) + 31) & !15;
                let offset = usize::try_from(head % ARENA as u64).expect("small");
                if offset + usize::try_from(slot).expect("small") > ARENA {
                    ring.put_half(arena + offset, u32::MAX);
                    head = head.wrapping_add((ARENA - offset) as u64);
                    ring.put_half(arena, length);
                } else {
                    ring.put_half(arena + offset, length);
                }
                head = head.wrapping_add(slot);
                ring.put(at, head);
            }
            6 => drain(&mut reader, &inbox, HEADER + LONGEST_FRAME),
            _ => drain(&mut reader, &inbox, usize::from(script.short())),
        }
    }
    drain(&mut reader, &inbox, HEADER + LONGEST_FRAME);
}

/// Takes all there is: as much as fits the arena at most, since the head does not move meanwhile.
fn drain(reader: &mut Reader, inbox: &Inbox, room: usize) {
    let mut buffer = vec![0xa5_u8; HEADER + LONGEST_FRAME + 64];
    for _ in 0..=ARENA / 16 {
        match reader.take(inbox, &mut buffer[..room]) {
            Taken::Frame { start, length, .. } => {
                assert!(start + length <= room && length >= HEADER);
                assert!(length - HEADER <= LONGEST_FRAME);
            }
            Taken::Truncated { length } => assert!(length > room),
            Taken::Empty => return,
            Taken::Corrupt => {
                assert_eq!(reader.take(inbox, &mut buffer), Taken::Corrupt);
                assert!(!reader.has_more());
                return;
            }
        }
        assert!(buffer[room..].iter().take(64).all(|byte| *byte == 0xa5));
    }
    panic!("more frames than an arena has room for");
}

/// Our end writes, and believes an inbox.
fn write(mut script: Script<'_>) {
    let inbox = Hostile::inbox();
    let peer = Arc::new(PeerInbox::open(inbox.fd.as_fd()).expect("a legal inbox"));
    let writer = Writer::create(ARENA, 9).expect("a ring");
    let mut out = writer.connect(peer, 5, Bell::create().expect("a bell")).expect("an edge");
    let cell = layout::inbox::CELLS_AT + 5 * layout::inbox::CELL;
    inbox.put_half(cell, 9);
    let frame = vec![1_u8; HEADER + LONGEST_FRAME + 2];
    let mut tail = 0_u64;
    while !script.0.is_empty() {
        match script.byte() % 8 {
            0 => {
                tail = tail.wrapping_add(u64::from(script.short()) * 16);
                inbox.put(cell + 8, tail);
            }
            1 => inbox.put(cell + 8, script.word()),
            2 => inbox.put_half(cell, script.half() % 16),
            3 => inbox.put(layout::inbox::SLEEP_AT, script.word()),
            4 | 5 => {
                let length = usize::from(script.short());
                match out.queue(script.short(), &frame[..length]) {
                    Pushed::Refused => assert!(length < HEADER + 14),
                    Pushed::Done | Pushed::Full | Pushed::Corrupt => {}
                }
            }
            6 => {
                let done = out.queue_wait(0, &frame, Duration::ZERO);
                assert_eq!(done, Pushed::Refused);
                out.queue_wait(0, &frame[..frame.len() - 2], Duration::ZERO);
            }
            _ => {
                out.flush();
                assert_eq!(out.unpublished(), 0);
            }
        }
        assert!(out.pending() <= ARENA as u64 && out.unpublished() <= out.pending());
    }
}

/// Our end looks at tables and rules.
fn look(mut script: Script<'_>) {
    let inbox = Hostile::inbox();
    let length = layout::page::LENGTH;
    let page = Hostile::new(layout::page::MAGIC, length, length as u64);
    let peer = PeerInbox::open(inbox.fd.as_fd()).expect("a legal inbox");
    let rules = PeerPage::open(page.fd.as_fd()).expect("a legal page");
    while !script.0.is_empty() {
        let (offset, word) = (script.half() as usize, script.word());
        inbox.put(offset, word);
        page.put(offset, word);
    }
    assert!(peer.table().len() <= layout::inbox::ENTRIES);
    peer.of_sender(u16::MAX);
    assert_eq!(peer.generation(u16::MAX), 0);
    for counter in Counter::ALL {
        peer.counter(*counter);
    }
    if let Some(snapshot) = rules.snapshot() {
        assert!(snapshot.ports.len() <= layout::PORTS && snapshot.sequence % 2 == 0);
        assert!(snapshot.sessions.len() <= layout::page::SESSIONS);
    }
}
