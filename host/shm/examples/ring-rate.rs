//! What a ring carries between two processes: rates by length of frame, and ping-pong times.
//!
//! `ring-rate [SECONDS [LENGTH]]`: for each length one process sends (one flush a frame, and one for 32),
//! another takes frames and sleeps when there are none. Then two processes send one frame to and
//! fro, first spinning, then sleeping in epoll. The processes are forks of one.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_shm::inbox::{Inbox, PeerInbox};
use netloom_shm::layout::HEADER;
use netloom_shm::ring::{Outgoing, Pushed, Reader, Taken, Writer};
use netloom_shm::wake::{Bell, Watch};

/// One direction, before the fork: both processes have both ends, and use one.
struct Edge {
    writer: Writer,
    inbox: Inbox,
    bell: Bell,
}

impl Edge {
    fn new(arena: usize) -> Edge {
        let writer = Writer::create(arena, 1).expect("a ring");
        Edge {
            writer,
            inbox: Inbox::create().expect("an inbox"),
            bell: Bell::create().expect("a bell"),
        }
    }

    fn out(self) -> Outgoing {
        let inbox = PeerInbox::open(self.inbox.fd()).expect("its inbox");
        self.writer.connect(Arc::new(inbox), 1, self.bell).expect("an edge")
    }

    fn into_end(self) -> End {
        let reader = Reader::open(self.writer.fd(), 1, &self.inbox).expect("its ring");
        let watch = Watch::create().expect("an epoll");
        watch.add_bell(&self.bell, 1).expect("watched");
        End { reader, inbox: self.inbox, watch, bell: self.bell, sleeps: 0 }
    }
}

struct End {
    reader: Reader,
    inbox: Inbox,
    watch: Watch,
    #[expect(dead_code, reason = "kept open")]
    bell: Bell,
    sleeps: u64,
}

impl End {
    /// The next frame, after `spins` looks in vain by a sleep.
    fn take(&mut self, buffer: &mut [u8], spins: u32) -> usize {
        let mut looks = 0;
        loop {
            match self.reader.take(&self.inbox, buffer) {
                Taken::Frame { length, .. } => return length,
                Taken::Empty if looks < spins => {
                    looks += 1;
                    std::hint::spin_loop();
                }
                Taken::Empty => {
                    self.inbox.fall_asleep();
                    if !self.reader.has_more() {
                        self.sleeps += 1;
                        self.watch.wait(None, |_| ()).expect("a sleep");
                    }
                    self.inbox.wake_up();
                    looks = 0;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Runs `child` in a fork, `parent` here, and waits for the child.
fn two(child: impl FnOnce(), parent: impl FnOnce()) {
    // SAFETY: this program has one thread.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child();
        std::process::exit(0);
    }
    assert!(pid > 0, "a fork");
    parent();
    let mut status = 0;
    // SAFETY: `status` is there to be written.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!((waited, status), (pid, 0));
}

fn rate(length: usize, batch: u64, spins: u32, seconds: f64) {
    let back = rustix::pipe::pipe().expect("a pipe");
    let shared = std::cell::Cell::new(Some(Edge::new(1 << 20)));
    two(
        || {
            let mut end = shared.take().expect("once").into_end();
            let mut buffer = vec![0_u8; 70_000];
            let (mut frames, mut bytes) = (0_u64, 0_u64);
            loop {
                let got = end.take(&mut buffer, spins) - HEADER;
                if got == 14 {
                    break;
                }
                frames += 1;
                bytes += got as u64;
            }
            let report = [frames, bytes, end.sleeps].map(u64::to_ne_bytes).concat();
            rustix::io::write(back.1.as_fd(), &report).expect("a report");
        },
        || {
            let mut out = shared.take().expect("once").out();
            let frame = vec![7_u8; HEADER + length];
            let started = Instant::now();
            let mut sent = 0_u64;
            let mut wakes = 0_u64;
            while started.elapsed().as_secs_f64() < seconds {
                for _ in 0..1024 {
                    let pushed = out.queue_wait(0, &frame, Duration::from_secs(5));
                    assert_eq!(pushed, Pushed::Done);
                    sent += 1;
                    if sent.is_multiple_of(batch) {
                        wakes += u64::from(out.flush());
                    }
                }
            }
            assert_eq!(out.queue_wait(0, &[0; HEADER + 14], Duration::from_secs(5)), Pushed::Done);
            out.flush();
            let mut report = [0_u8; 24];
            rustix::io::read(back.0.as_fd(), &mut report).expect("a report");
            let time = started.elapsed().as_secs_f64();
            let word = |at: usize| {
                u64::from_ne_bytes(report[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
            };
            let (frames, bytes) = (word(0) as f64, word(1) as f64);
            println!(
                "{length:6} bytes, flush each {batch:2}, spins {spins:4}: {:7.2} Mpps {:7.2} Gb/s {:7.1} ns/frame  \
                 lost {} waits {} wakes {wakes} sleeps {}",
                frames / time / 1e6,
                bytes * 8.0 / time / 1e9,
                time * 1e9 / frames,
                sent - word(0),
                out.waits(),
                word(2),
            );
        },
    );
}

fn ping_pong(spins: u32, rounds: usize) {
    let there = std::cell::Cell::new(Some(Edge::new(1 << 18)));
    let back = std::cell::Cell::new(Some(Edge::new(1 << 18)));
    two(
        || {
            let mut end = there.take().expect("once").into_end();
            let mut out = back.take().expect("once").out();
            let mut buffer = vec![0_u8; 70_000];
            for _ in 0..rounds {
                let length = end.take(&mut buffer, spins);
                assert_eq!(out.queue(0, &buffer[..length]), Pushed::Done);
                out.flush();
            }
        },
        || {
            let mut out = there.take().expect("once").out();
            let mut end = back.take().expect("once").into_end();
            let mut buffer = vec![0_u8; 70_000];
            let frame = vec![7_u8; HEADER + 60];
            let mut times = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                let started = Instant::now();
                assert_eq!(out.queue(0, &frame), Pushed::Done);
                out.flush();
                end.take(&mut buffer, spins);
                times.push(started.elapsed().as_nanos());
            }
            times.sort_unstable();
            let at = |part: usize| times[rounds * part / 1000] as f64 / 1e3;
            let how = if spins == 0 { "sleeping" } else { "spinning" };
            println!(
                "ping-pong {how}: p50 {:.2} p90 {:.2} p99 {:.2} us",
                at(500),
                at(900),
                at(990)
            );
        },
    );
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let only: Option<usize> = std::env::args().nth(2).and_then(|text| text.parse().ok());
    let cases = [(60, 1), (60, 32), (512, 1), (1500, 1), (1500, 32), (9000, 1), (65_535, 1)];
    for (length, batch) in cases.into_iter().filter(|case| only.is_none_or(|one| one == case.0)) {
        rate(length, batch, 0, seconds);
        rate(length, batch, 2000, seconds);
    }
    ping_pong(u32::MAX, 200_000);
    ping_pong(0, 20_000);
}
