//! What carries frames between the two links of the middle, and knows what it did to each.
//!
//! A thread reads both sides by packet sockets. Our datagrams get a fate by dice from a seed; all else
//! goes on at once. Super-frames stay as they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use netloom_digest::splitmix::SplitMix64;
use netloom_port::{MOST_FRAME, PacketPort, Port, Received, Sent};
use netloom_sys::{clock, namespace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::net::{LEFT, Line, RIGHT};
use super::{BOUND, TO, frame};

const MILLISECOND: u64 = 1_000_000;

/// The treatment of our datagrams; shares in thousandths, times in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fates {
    pub(crate) seed: u64,
    pub(crate) drops: u64,
    pub(crate) duplicates: u64,
    /// How many are kept for `hold`, so that others overtake.
    pub(crate) holds: u64,
    pub(crate) hold: u64,
    /// What all wait, and up to how much longer.
    pub(crate) delay: u64,
    pub(crate) jitter: u64,
}

/// What became of a datagram.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    /// DSCP and ECN as it came.
    pub(crate) class: u8,
    /// Bytes of its frame.
    pub(crate) bytes: u64,
    /// When it had been read, on CLOCK_MONOTONIC.
    pub(crate) received: u64,
    /// Just before and after each time that it was sent on; none if it was dropped.
    pub(crate) sent: Vec<[u64; 2]>,
}

/// A relay that runs.
#[derive(Debug)]
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    /// Datagrams that have come and gone their way.
    done: Arc<AtomicU64>,
    thread: JoinHandle<Vec<Entry>>,
}

impl Relay {
    pub(crate) fn start(line: &Line, fates: Fates) -> Relay {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let ports = line.middle.run(|| {
            let open = |index| PacketPort::open_behind_egress(index).unwrap();
            [open(LEFT), open(RIGHT)]
        });
        let space = line.middle.fd().try_clone_to_owned().unwrap();
        let mut work = Work {
            ports,
            fates,
            dice: SplitMix64::new(fates.seed),
            entries: Vec::new(),
            waiting: BTreeMap::new(),
            done: Arc::clone(&done),
        };
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            namespace::enter_network(&space).unwrap();
            while !told.load(Ordering::Relaxed) {
                work.turn();
            }
            assert!(work.waiting.is_empty());
            for port in &mut work.ports {
                assert_eq!(port.overruns(), Some(0));
            }
            work.entries
        });
        Relay { stop, done, thread }
    }

    /// What became of each, when this many datagrams have come.
    pub(crate) fn ledger(self, datagrams: u64) -> Vec<Entry> {
        let all = || (self.done.load(Ordering::Relaxed) >= datagrams).then_some(());
        netloom_kit::wait_until("all went through the relay", BOUND, all);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

struct Work {
    ports: [PacketPort; 2],
    fates: Fates,
    dice: SplitMix64,
    entries: Vec<Entry>,
    /// By when it is due and its number in the order of coming: its place in the entries.
    waiting: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    done: Arc<AtomicU64>,
}

impl Work {
    fn turn(&mut self) {
        self.wait();
        self.receive();
        self.send_due();
    }

    fn wait(&self) {
        let due = self.waiting.keys().next().map_or(u64::MAX, |(due, _)| *due);
        let left = due.saturating_sub(clock::monotonic()).min(5 * MILLISECOND);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(left).unwrap() };
        let mut both =
            self.ports.each_ref().map(|port| PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN));
        poll(&mut both, Some(&timeout)).unwrap();
    }

    fn receive(&mut self) {
        let mut room = vec![0; MOST_FRAME];
        for side in 0..2 {
            // Bounded, so that what is due is not kept waiting.
            for _ in 0..64 {
                match self.ports[side].receive(&mut room).unwrap() {
                    Received::Frame { start, length } => {
                        let frame = &room[start..start + length];
                        self.take(side, frame, clock::monotonic());
                    }
                    Received::Truncated => panic!("a frame was cut"),
                    _ => break,
                }
            }
        }
    }

    fn take(&mut self, side: usize, bytes: &[u8], received: u64) {
        let read = frame::read(bytes).filter(|_| side == 0);
        let ours = read.and_then(|read| Some((read, frame::sequence(&read, bytes, TO)?)));
        let Some((read, sequence)) = ours else {
            send(&mut self.ports[1 - side], bytes);
            return;
        };
        let entry = self.entries.len();
        let (class, size) = (read.class, read.bytes);
        let new = Entry { sequence, class, bytes: size, received, sent: Vec::new() };
        self.entries.push(new);
        let mut hits = |permille| self.dice.below(1000) < permille;
        let (drop, twice, held) =
            (hits(self.fates.drops), hits(self.fates.duplicates), hits(self.fates.holds));
        let jitter = self.dice.below(self.fates.jitter + 1);
        if drop {
            self.done.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let hold = if held { self.fates.hold } else { 0 };
        let due = received + self.fates.delay + jitter + hold;
        let number = u64::try_from(entry).unwrap() * 2;
        self.waiting.insert((due, number), (entry, bytes.to_vec()));
        if twice {
            self.waiting.insert((due, number + 1), (entry, bytes.to_vec()));
        }
    }

    fn send_due(&mut self) {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > clock::monotonic() {
                return;
            }
            let ((_, number), (entry, bytes)) = first.remove_entry();
            let sent = send(&mut self.ports[1], &bytes);
            self.entries[entry].sent.push(sent);
            let again = self.waiting.keys().any(|(_, other)| *other == number + 1);
            if number % 2 == 1 || !again {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Sends a frame; just before and after.
fn send(port: &mut PacketPort, bytes: &[u8]) -> [u64; 2] {
    loop {
        let before = clock::monotonic();
        match port.send(bytes).unwrap() {
            Sent::Done => return [before, clock::monotonic()],
            Sent::Full => {
                poll(&mut [PollFd::from_borrowed_fd(port.as_fd(), PollFlags::OUT)], None).unwrap();
            }
            lost => panic!("the relay lost a frame: {lost:?}"),
        }
    }
}
