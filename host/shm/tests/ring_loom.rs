//! Models of a ring's protocol: `cargo xtask loom` runs every order of its steps that memory allows.
//!
//! The code is `src/index.rs` itself on loom's atomics. The arena is made of loom's cells, so
//! that a byte read while it is written is an error; the bell and the futex are what the kernel
//! promises of them. A wake-up that is lost is a deadlock, which loom reports.
#![allow(dead_code, reason = "not all of the protocol is used here")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

#[path = "../src/index.rs"]
mod index;

/// In the place of `src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

use index::{Cell, Consume, Next, PADDING, Place, Produce, Wait, slot_bytes};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of an arena: four units of 16.
const SIZE: u64 = 64;
const UNITS: usize = 4;
const GENERATION: u32 = 7;

/// What a sender writes.
struct Ring {
    head: AtomicU64,
    waiting: AtomicU32,
    units: [UnsafeCell<u64>; UNITS],
}

// SAFETY: loom's cells tell whether accesses are ordered.
unsafe impl Sync for Ring {}

/// What a receiver writes, and what the kernel keeps for both.
struct Inbox {
    sleep: AtomicU64,
    generation: AtomicU32,
    tail: AtomicU64,
    bell: Mutex<bool>,
    rung: Condvar,
    futex: Mutex<()>,
    woken: Condvar,
}

fn ring() -> Arc<Ring> {
    Arc::new(Ring {
        head: AtomicU64::new(0),
        waiting: AtomicU32::new(0),
        units: std::array::from_fn(|_| UnsafeCell::new(0)),
    })
}

fn inbox() -> Arc<Inbox> {
    Arc::new(Inbox {
        sleep: AtomicU64::new(0),
        generation: AtomicU32::new(0),
        tail: AtomicU64::new(0),
        bell: Mutex::new(false),
        rung: Condvar::new(),
        futex: Mutex::new(()),
        woken: Condvar::new(),
    })
}

impl Ring {
    fn put(&self, offset: usize, word: u64) {
        // SAFETY: loom checks that nobody else accesses it.
        self.units[offset / 16].with_mut(|unit| unsafe { *unit = word });
    }

    fn get(&self, offset: usize) -> u64 {
        // SAFETY: loom checks that nobody writes it.
        self.units[offset / 16].with(|unit| unsafe { *unit })
    }

    /// Writes a slot: its length and number in the first unit, the number in the others.
    fn write(&self, padding: Option<usize>, at: usize, length: u32, number: u32) {
        if let Some(offset) = padding {
            self.put(offset, u64::from(PADDING));
        }
        self.put(at, u64::from(length) | u64::from(number) << 32);
        for offset in (at + 16..at + slot_bytes(length) as usize).step_by(16) {
            self.put(offset, u64::from(number));
        }
    }

    /// Checks the slot that `next` gave, and gives its number.
    fn read(&self, at: usize, length: u32, lead: u64) -> u32 {
        for offset in (at + 16..at + slot_bytes(length) as usize).step_by(16) {
            assert_eq!(self.get(offset), lead >> 32, "a slot that is not whole");
        }
        (lead >> 32) as u32
    }
}

impl Inbox {
    fn cell(&self) -> Cell<'_> {
        Cell { generation: &self.generation, tail: &self.tail }
    }

    fn ring_bell(&self) {
        *self.bell.lock().unwrap() = true;
        self.rung.notify_one();
    }

    fn wait_for_bell(&self) {
        let mut rung = self.bell.lock().unwrap();
        while !*rung {
            rung = self.rung.wait(rung).unwrap();
        }
        *rung = false;
    }

    fn clear_bell(&self) {
        *self.bell.lock().unwrap() = false;
    }

    fn futex_wait(&self, value: u32) {
        let held = self.futex.lock().unwrap();
        if self.tail.load(Ordering::Relaxed) as u32 == value {
            drop(self.woken.wait(held).unwrap());
        }
    }

    fn futex_wake(&self) {
        drop(self.futex.lock().unwrap());
        self.woken.notify_one();
    }
}

fn flush(index: &mut Produce, ring: &Ring, inbox: &Inbox) {
    if index.publish(&ring.head) && index.must_wake(&inbox.sleep) {
        inbox.ring_bell();
    }
}

/// Sends a frame, and sleeps as long as the ring is full.
fn send(index: &mut Produce, ring: &Ring, inbox: &Inbox, length: u32, number: u32) {
    loop {
        match index.place(length, || inbox.cell()) {
            Place::At { padding, at } => {
                ring.write(padding, at, length, number);
                index.written(length);
                return flush(index, ring, inbox);
            }
            Place::Full => loop {
                match index.start_wait(length, inbox.cell(), &ring.waiting) {
                    Wait::Room => break index.end_wait(&ring.waiting),
                    Wait::While(value) => inbox.futex_wait(value),
                    Wait::Corrupt => panic!("the tail cannot be"),
                }
            },
            Place::Corrupt => panic!("the tail cannot be"),
        }
    }
}

fn settle(index: &mut Consume, ring: &Ring, inbox: &Inbox) {
    if index.publish(&inbox.tail, &ring.waiting) {
        inbox.futex_wake();
    }
}

/// The next frame's number if there is one.
fn take(index: &mut Consume, ring: &Ring, inbox: &Inbox) -> Option<u32> {
    match index.next(&ring.head, |offset| ring.get(offset)) {
        Next::Slot { at, length, lead } => {
            let number = ring.read(at, length, lead);
            index.taken(length);
            if index.is_due() {
                settle(index, ring, inbox);
            }
            Some(number)
        }
        Next::Empty => {
            settle(index, ring, inbox);
            None
        }
        Next::Corrupt => panic!("a legal ring"),
    }
}

/// The next frame's number; sleeps until there is one.
fn wait(index: &mut Consume, ring: &Ring, inbox: &Inbox) -> u32 {
    loop {
        if let Some(number) = take(index, ring, inbox) {
            return number;
        }
        index::fall_asleep(&inbox.sleep);
        if !index.has_more(&ring.head) {
            inbox.wait_for_bell();
        }
        inbox.clear_bell();
        index::wake_up(&inbox.sleep);
    }
}

fn consume(inbox: &Inbox) -> Consume {
    let index = Consume::new(SIZE, 1000);
    index.begin(inbox.cell(), GENERATION);
    index
}

/// Lengths whose slots are 16, 32 and 48 bytes.
const ONE: u32 = 0;
const TWO: u32 = 16;
const THREE: u32 = 32;

/// Both sides, each in a thread of its own, until all frames of these lengths have passed. No order
/// with more than `bound` preemptions is tried.
fn pass(lengths: &'static [u32], bound: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(bound);
    model.check(move || {
        let (ring, inbox) = (ring(), inbox());
        let mut reader = consume(&inbox);
        let (there, its) = (ring.clone(), inbox.clone());
        let sender = thread::spawn(move || {
            let mut index = Produce::new(SIZE, GENERATION);
            for (number, length) in (1..).zip(lengths) {
                send(&mut index, &there, &its, *length, number);
            }
        });
        for (number, _) in (1..).zip(lengths) {
            assert_eq!(wait(&mut reader, &ring, &inbox), number);
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_a_sleeping_reader_is_woken() {
    pass(&[ONE, ONE], 5);
    pass(&[ONE, ONE, ONE], 3);
}

#[test]
fn loom_a_waiting_writer_is_woken() {
    pass(&[THREE, THREE], 4);
    pass(&[TWO, TWO, TWO], 3);
}

#[test]
fn loom_padding_at_the_wrap() {
    // 16 + 32, then 16 of padding and 32, then 32 behind it.
    pass(&[ONE, TWO, TWO, TWO], 3);
    pass(&[THREE, TWO, ONE, TWO], 2);
}

/// A batch is shown at once, and costs one wake-up.
#[test]
fn loom_a_batch() {
    loom::model(|| {
        let (ring, inbox) = (ring(), inbox());
        let mut reader = consume(&inbox);
        let (there, its) = (ring.clone(), inbox.clone());
        let sender = thread::spawn(move || {
            let mut index = Produce::new(SIZE, GENERATION);
            for number in 1..=3 {
                match index.place(ONE, || its.cell()) {
                    Place::At { padding, at } => there.write(padding, at, ONE, number),
                    other => panic!("{other:?}"),
                }
                index.written(ONE);
            }
            flush(&mut index, &there, &its);
        });
        for number in 1..=3 {
            assert_eq!(wait(&mut reader, &ring, &inbox), number);
        }
        sender.join().unwrap();
    });
}

/// A sender that is killed after any of its steps: the reader finds whole frames, as many as were
/// published, and then nothing.
#[test]
fn loom_a_writer_is_killed_anywhere() {
    const STEPS: usize = 10;
    for killed in 0..=STEPS {
        loom::model(move || {
            let (ring, inbox) = (ring(), inbox());
            let mut reader = consume(&inbox);
            let (there, its) = (ring.clone(), inbox.clone());
            let sender = thread::spawn(move || {
                let mut index = Produce::new(SIZE, GENERATION);
                let mut left = killed;
                let mut step = move || {
                    left = left.checked_sub(1)?;
                    Some(())
                };
                for number in 1..=2_u32 {
                    let Place::At { padding, at } = index.place(TWO, || its.cell()) else {
                        panic!("there is room")
                    };
                    assert_eq!(padding, None);
                    step()?;
                    there.put(at, u64::from(TWO) | u64::from(number) << 32);
                    step()?;
                    there.put(at + 16, u64::from(number));
                    step()?;
                    index.written(TWO);
                    index.publish(&there.head);
                    step()?;
                    if index.must_wake(&its.sleep) {
                        its.ring_bell();
                    }
                    step()?;
                }
                Some(())
            });
            let mut next = 1;
            while let Some(number) = take(&mut reader, &ring, &inbox) {
                assert_eq!(number, next);
                next += 1;
            }
            sender.join().unwrap();
            while let Some(number) = take(&mut reader, &ring, &inbox) {
                assert_eq!(number, next);
                next += 1;
            }
            let published = match killed {
                0..=2 => 0,
                3..=7 => 1,
                _ => 2,
            };
            assert_eq!(next - 1, published);
        });
    }
}

/// A receiver begins with another ring under the same number, while both senders look at the cell:
/// neither takes the other's tail for its own.
#[test]
fn loom_another_generation() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (old, new, inbox) = (ring(), ring(), inbox());
        let mut first = consume(&inbox);
        let mut old_writer = Produce::new(SIZE, GENERATION);
        send(&mut old_writer, &old, &inbox, THREE, 1);
        assert_eq!(take(&mut first, &old, &inbox), Some(1));
        settle(&mut first, &old, &inbox);
        // Its copy of the tail is what was settled, so that 0 would be a step back.
        assert_ne!(old_writer.place(THREE, || inbox.cell()), Place::Full);
        old_writer.written(THREE);

        let its = inbox.clone();
        let before = thread::spawn(move || {
            assert_eq!(old_writer.place(THREE, || its.cell()), Place::Full);
        });
        let (there, its) = (new.clone(), inbox.clone());
        let after = thread::spawn(move || {
            let mut index = Produce::new(SIZE, GENERATION + 1);
            for number in 1..=2 {
                match index.place(THREE, || its.cell()) {
                    Place::At { padding, at } => {
                        there.write(padding, at, THREE, number);
                        index.written(THREE);
                        index.publish(&there.head);
                    }
                    Place::Full => {}
                    Place::Corrupt => panic!("the other's tail was taken"),
                }
            }
        });
        let mut second = Consume::new(SIZE, 1000);
        second.begin(inbox.cell(), GENERATION + 1);
        while take(&mut second, &new, &inbox).is_some() {}
        before.join().unwrap();
        after.join().unwrap();
    });
}
