//! Peers that write what they should not: nothing but their own edge is lost.

use super::ring_script;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_shm::Error;
use netloom_shm::inbox::{Inbox, PeerInbox};
use netloom_shm::layout::{self, HEADER, LONGEST_FRAME};
use netloom_shm::memory::Foreign;
use netloom_shm::ring::{Pushed, Reader, Taken, Writer};
use netloom_shm::wake::Bell;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use ring_script::{ARENA, Hostile};

const ARENA_AT: usize = layout::ring::ARENA_AT;

fn reader(ring: &Hostile) -> (Reader, Inbox) {
    let inbox = Inbox::create().expect("an inbox");
    (Reader::open(ring.fd.as_fd(), 1, &inbox).expect("a legal ring"), inbox)
}

/// What a reader says to these half words at offsets of the arena and this head.
fn said(head: u64, halves: &[(usize, u32)]) -> Taken {
    let ring = Hostile::ring(1);
    for (offset, half) in halves {
        ring.put_half(ARENA_AT + offset, *half);
    }
    ring.put(layout::ring::HEAD_AT, head);
    let (mut reader, inbox) = reader(&ring);
    reader.take(&inbox, &mut vec![0; HEADER + LONGEST_FRAME])
}

#[test]
fn what_cannot_be_is_corrupt() {
    let most = u32::try_from(LONGEST_FRAME).expect("small");
    assert_eq!(said(0, &[]), Taken::Empty);
    for (head, halves) in [
        (8, vec![]),
        (ARENA as u64 + 16, vec![]),
        (u64::MAX - 15, vec![]),
        (16, vec![(0, 1)]),
        (ARENA as u64, vec![(0, most + 1)]),
        (ARENA as u64, vec![(0, u32::MAX)]),
        (64, vec![(0, u32::MAX - 1)]),
        (64, vec![(0, 64)]),
    ] {
        assert_eq!(said(head, &halves), Taken::Corrupt, "{head} {halves:?}");
    }
    assert!(matches!(said(ARENA as u64, &[(0, most)]), Taken::Frame { .. }));
}

#[test]
fn padding_without_a_slot_behind_it_is_corrupt() {
    let ring = Hostile::ring(1);
    let (mut reader, inbox) = reader(&ring);
    let mut buffer = vec![0; 100];
    ring.put_half(ARENA_AT, 14);
    ring.put_half(ARENA_AT + 32, u32::MAX);
    ring.put(layout::ring::HEAD_AT, ARENA as u64);
    assert!(matches!(reader.take(&inbox, &mut buffer), Taken::Frame { length: 24, .. }));
    assert_eq!(reader.take(&inbox, &mut buffer), Taken::Corrupt);
    ring.put(layout::ring::HEAD_AT, ARENA as u64 + 32);
    assert_eq!(reader.take(&inbox, &mut buffer), Taken::Corrupt, "it stays so");
}

#[test]
fn a_head_that_goes_back_is_corrupt() {
    let ring = Hostile::ring(1);
    let (mut reader, inbox) = reader(&ring);
    let mut buffer = vec![0; 100];
    ring.put_half(ARENA_AT, 14);
    ring.put(layout::ring::HEAD_AT, 32);
    assert!(matches!(reader.take(&inbox, &mut buffer), Taken::Frame { .. }));
    ring.put(layout::ring::HEAD_AT, 16);
    assert_eq!(reader.take(&inbox, &mut buffer), Taken::Corrupt);
}

#[test]
fn a_tail_that_cannot_be_is_corrupt() {
    for tail in [8, 64, u64::MAX - 15] {
        let inbox = Hostile::inbox();
        let cell = layout::inbox::CELLS_AT + 2 * layout::inbox::CELL;
        inbox.put_half(cell, 7);
        inbox.put(cell + 8, tail);
        let peer = Arc::new(PeerInbox::open(inbox.fd.as_fd()).expect("a legal inbox"));
        let writer = Writer::create(ARENA, 7).expect("a ring");
        let mut out = writer.connect(peer, 2, Bell::create().expect("a bell")).expect("an edge");
        let frame = vec![0; HEADER + 1500];
        let mut last = Pushed::Done;
        // The tail is looked at when the ring seems full. Until then one slot is published.
        assert_eq!(out.queue(0, &frame[..HEADER + 14]), Pushed::Done);
        out.flush();
        for _ in 0..=ARENA / 1500 {
            last = out.queue(0, &frame);
        }
        assert_eq!(last, Pushed::Corrupt, "{tail}");
        let last = out.queue_wait(0, &frame, Duration::from_secs(60));
        assert_eq!(last, Pushed::Corrupt, "without a wait");
    }
}

/// A reader that never takes costs one bound; one that moves again is served again.
#[test]
fn a_reader_that_does_not_read_costs_the_bound_once() {
    let inbox = Inbox::create().expect("an inbox");
    let writer = Writer::create(ARENA, 1).expect("a ring");
    let mut reader = Reader::open(writer.fd(), 4, &inbox).expect("a ring");
    let peer = Arc::new(PeerInbox::open(inbox.fd()).expect("an inbox"));
    let mut out = writer.connect(peer, 4, Bell::create().expect("a bell")).expect("an edge");
    let frame = vec![0; HEADER + 60];
    while out.queue(0, &frame) == Pushed::Done {}
    let bound = Duration::from_millis(50);
    let started = Instant::now();
    assert_eq!(out.queue_wait(0, &frame, bound), Pushed::Full);
    assert!(started.elapsed() >= bound && out.is_stalled() && out.waits() == 1);
    // No more waits: with this bound a second one would never end.
    for _ in 0..100 {
        assert_eq!(out.queue_wait(0, &frame, Duration::MAX), Pushed::Full);
    }
    let mut buffer = vec![0; 100];
    let mut taken = 0;
    while matches!(reader.take(&inbox, &mut buffer), Taken::Frame { .. }) {
        taken += 1;
    }
    assert_eq!(taken, ARENA / 80);
    assert_eq!(out.queue_wait(0, &frame, bound), Pushed::Done);
    assert!(!out.is_stalled() && out.waits() == 1);
}

#[test]
fn memory_that_is_not_as_it_must_be_is_refused() {
    let length = layout::inbox::LENGTH;
    let open = |memory: &Hostile| {
        let got = Foreign::open("it", memory.fd.as_fd(), layout::inbox::MAGIC, length, length);
        match got {
            Ok(_) => "taken",
            Err(Error::Memory { reason, .. }) => reason,
            Err(_) => "another error",
        }
    };
    let magic = layout::inbox::MAGIC;
    assert_eq!(open(&Hostile::new(magic, length, 0)), "taken");
    assert_eq!(open(&Hostile::unsealed(magic, length, 0)), "not sealed");
    assert_eq!(open(&Hostile::new(magic, length + 4096, 0)), "of a wrong length");
    assert_eq!(open(&Hostile::new(magic, 4096, 0)), "of a wrong length");
    assert_eq!(open(&Hostile::new(magic + 1, length, 0)), "of another kind");
    let old = Hostile::new(magic, length, 0);
    old.put_half(layout::VERSION_AT, 2);
    assert_eq!(open(&old), "of another version");
    let null = std::fs::File::open("/dev/null").expect("a file");
    let got = Foreign::open("it", null.as_fd(), magic, length, length);
    assert!(matches!(got, Err(Error::Memory { reason: "not a memfd", .. })));

    let inbox = Inbox::create().expect("an inbox");
    for (arena, declared, generation) in
        [(ARENA + 4096, ARENA as u64, 1), (ARENA, 2 * ARENA as u64, 1), (ARENA, ARENA as u64, 0)]
    {
        let ring = Hostile::new(layout::ring::MAGIC, ARENA_AT + arena, declared);
        ring.put_half(layout::ring::GENERATION_AT, generation);
        assert!(Reader::open(ring.fd.as_fd(), 1, &inbox).is_err());
    }
    assert!(Reader::open(Hostile::ring(1).fd.as_fd(), 256, &inbox).is_err());
    assert!(Writer::create(ARENA, 0).is_err());
    assert!(Writer::create(ARENA / 2, 1).is_err());
    assert!(Writer::create(ARENA + 1, 1).is_err());
}

/// Nobody can write what its owner has sealed, nor change its size.
#[test]
fn what_is_sealed_stays_its_owners() {
    let inbox = Inbox::create().expect("an inbox");
    let flags = rustix::mm::MapFlags::SHARED;
    let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses, if it is made at all.
    let map = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, access, flags, inbox.fd(), 0) };
    assert_eq!(map.err(), Some(rustix::io::Errno::PERM));
    assert!(rustix::fs::ftruncate(inbox.fd(), 0).is_err());
    assert!(rustix::fs::ftruncate(inbox.fd(), 1 << 20).is_err());
    assert!(rustix::io::write(inbox.fd(), b"x").is_err());
    inbox.fall_asleep();
    assert_eq!(PeerInbox::open(inbox.fd()).expect("an inbox").epoch(), 1);
}

/// The fuzzer's seeds, and what it once found.
#[test]
fn seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/ring");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        ring_script::run(&std::fs::read(entry.expect("a seed").path()).expect("its bytes"));
        count += 1;
    }
    assert!(count >= 10, "only {count} seeds");
}

#[test]
fn any_peer() {
    let times = netloom_kit::rounds(300);
    let mut peers = TestRunner::new(ProptestConfig::with_cases(times));
    let bytes = prop::collection::vec(any::<u8>(), 0..400);
    let run = |bytes: Vec<u8>| {
        ring_script::run(&bytes);
        Ok(())
    };
    peers.run(&bytes, run).unwrap_or_else(|wrong| panic!("{wrong}"));
    netloom_kit::done("peers of a ring that write what they should not, step by step", times);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever lengths pass: all frames arrive whole, in order, with header and origin.
    #[test]
    fn frames_pass(
        lengths in prop::collection::vec(
            prop_oneof![14..300_usize, Just(1514), 14..=LONGEST_FRAME],
            1..200,
        ),
        batch in 1..20_usize,
    ) {
        let inbox = Inbox::create().expect("an inbox");
        let writer = Writer::create(ARENA, 1).expect("a ring");
        let mut reader = Reader::open(writer.fd(), 4, &inbox).expect("a ring");
        let peer = Arc::new(PeerInbox::open(inbox.fd()).expect("an inbox"));
        let mut out = writer.connect(peer, 4, Bell::create().expect("a bell")).expect("an edge");
        let mut buffer = vec![0; HEADER + LONGEST_FRAME];
        let frame = |number: usize, length: usize| -> Vec<u8> {
            (0..HEADER + length).map(|at| u8::try_from((at * 7 + number) % 251).unwrap()).collect()
        };
        let mut next = 0;
        let mut drain = |next: &mut usize| loop {
            match reader.take(&inbox, &mut buffer) {
                Taken::Frame { start, length, origin } => {
                    assert_eq!(usize::from(origin), *next);
                    let wanted = frame(*next, lengths[*next]);
                    assert!(buffer[start..start + length] == wanted, "frame {next}");
                    *next += 1;
                }
                Taken::Empty => return,
                other => panic!("{other:?}"),
            }
        };
        for (number, length) in lengths.iter().enumerate() {
            let whole = frame(number, *length);
            let origin = u16::try_from(number).expect("small");
            let put = |out: &mut netloom_shm::ring::Outgoing| match number % 2 {
                0 => out.queue(origin, &whole),
                _ => out.queue_parts(origin, whole.first_chunk().expect("one"), &whole[HEADER..]),
            };
            if put(&mut out) == Pushed::Full {
                out.flush();
                drain(&mut next);
                prop_assert_eq!(put(&mut out), Pushed::Done);
            }
            if number % batch == 0 {
                out.flush();
            }
        }
        out.flush();
        drain(&mut next);
        prop_assert_eq!(next, lengths.len());
    }
}
