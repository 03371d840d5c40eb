//! Connections over a scripted port: what programs see of each outcome.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

use super::*;

/// Returns scripted results, with an eventfd that is readable on demand.
struct Script {
    gives: VecDeque<(Received, Vec<u8>)>,
    sent: Vec<(Vec<u8>, bool)>,
    answer: Sent,
    data: OwnedFd,
    woken: bool,
}

impl Port for Script {
    fn receive(&mut self, buffer: &mut [u8]) -> netloom_shm::Result<Received> {
        // As in a port: a look at the descriptor consumes the wake-up.
        self.woken = readable(self.data.as_fd()).expect("poll");
        if self.woken {
            rustix::io::read(&self.data, &mut [0; 8]).expect("read");
        }
        let Some((received, bytes)) = self.gives.pop_front() else { return Ok(Received::Empty) };
        if let Received::Frame { start, length } = received {
            buffer[start..start + length].copy_from_slice(&bytes);
        }
        Ok(received)
    }

    fn send(&mut self, frame: &[u8], wait: bool) -> netloom_shm::Result<Sent> {
        self.sent.push((frame.to_vec(), wait));
        Ok(self.answer)
    }

    fn was_woken(&mut self) -> netloom_shm::Result<bool> {
        Ok(self.woken)
    }

    fn data(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }

    fn control(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }
}

/// Whether a descriptor is readable.
fn readable(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    Ok(rustix::event::poll(&mut polled, Some(&now))? > 0)
}

fn plug(gives: &[Received]) -> Plug<Script> {
    let bytes = |received: &Received| match received {
        Received::Frame { length, .. } => {
            (0..*length).map(|n| if n < HEADER { 0xee } else { low(n) }).collect()
        }
        _ => vec![],
    };
    let port = Script {
        gives: gives.iter().map(|of| (*of, bytes(of))).collect(),
        sent: vec![],
        answer: Sent::Done,
        data: eventfd(0, EventfdFlags::CLOEXEC).expect("eventfd"),
        woken: false,
    };
    Plug::new(port)
}

fn set_nonblocking(plug: &Plug<Script>) {
    let held = plug.lock().expect("lock");
    rustix::fs::fcntl_setfl(&held.port.data, OFlags::NONBLOCK).expect("set flags");
}

fn wake(plug: &Plug<Script>) {
    rustix::io::write(&plug.lock().expect("lock").port.data, &1_u64.to_ne_bytes()).expect("wake");
}

fn receive(plug: &Plug<Script>, flags: i32) -> Result<Taken, Errno> {
    plug.receive(flags, <[u8]>::len)
}

fn low(n: usize) -> u8 {
    n.to_le_bytes()[0]
}

const fn frame(start: usize, length: usize) -> Received {
    Received::Frame { start, length: HEADER + length }
}

#[test]
fn frames_come_without_their_header_and_from_where_they_start() {
    let plug = plug(&[frame(0, 14), frame(6, 60), frame(0, MOST)]);
    for length in [14, 60, MOST] {
        let mut got = vec![];
        let taken = plug.receive(0, |frame| {
            got = frame.to_vec();
            7
        });
        assert_eq!(taken, Ok(Taken::Frame(7)), "what the program's buffer took");
        assert_eq!(got.len(), length);
        assert!(got.iter().enumerate().all(|(n, byte)| *byte == low(HEADER + n)));
    }
}

#[test]
fn nothing_there_is_no_wait() {
    let plug = plug(&[]);
    for flags in [0, libc::MSG_DONTWAIT] {
        assert_eq!(receive(&plug, flags), Err(Errno::AGAIN));
    }
}

#[test]
fn who_was_woken_for_nothing_is_told_so_without_an_error() {
    let plug = plug(&[]);
    wake(&plug);
    assert_eq!(receive(&plug, 0), Ok(Taken::Nothing));
    assert_eq!(receive(&plug, 0), Err(Errno::AGAIN), "not woken again");
}

#[test]
fn who_drains_finds_the_end_as_an_error() {
    for by_flag in [true, false] {
        let plug = plug(&[frame(0, 60)]);
        let flags = if by_flag { libc::MSG_DONTWAIT } else { 0 };
        if !by_flag {
            set_nonblocking(&plug);
        }
        for _ in 0..2 {
            wake(&plug);
            let mut last = receive(&plug, flags);
            while last.is_ok() {
                last = receive(&plug, flags);
            }
            assert_eq!(last, Err(Errno::AGAIN), "by flag: {by_flag}");
        }
    }
}

#[test]
fn a_frame_too_long_for_any_is_passed_over() {
    let plug = plug(&[Received::Truncated, frame(0, 20)]);
    assert_eq!(receive(&plug, 0), Ok(Taken::Frame(20)));
}

#[test]
fn a_switch_that_is_gone_is_an_error_after_the_last_frame() {
    let plug = plug(&[frame(0, 20), Received::Gone]);
    assert_eq!(receive(&plug, 0), Ok(Taken::Frame(20)));
    assert_eq!(receive(&plug, 0), Err(Errno::CONNRESET));
}

#[test]
fn frames_are_sent_with_a_header_that_says_nothing() {
    let plug = plug(&[frame(0, 60)]);
    // Leaves a non-zero header in the buffer.
    receive(&plug, 0).expect("frame");
    for (length, flags) in [(14, 0), (MOST, libc::MSG_DONTWAIT)] {
        assert_eq!(plug.send(length, flags, |to| to.fill(0x55)), Ok(length));
    }
    let sent = &plug.lock().expect("lock").port.sent;
    for ((bytes, waited), (length, waits)) in sent.iter().zip([(14, true), (MOST, false)]) {
        let (header, frame) = bytes.split_at(HEADER);
        assert_eq!((header, *waited), (&[0; HEADER][..], waits));
        assert!(frame.len() == length && frame.iter().all(|byte| *byte == 0x55));
    }
}

#[test]
fn frames_that_are_none_never_reach_the_port() {
    let plug = plug(&[]);
    let wrong = [(0, Errno::INVAL), (13, Errno::INVAL), (MOST + 1, Errno::MSGSIZE)];
    for (length, error) in wrong.into_iter().chain([(usize::MAX, Errno::MSGSIZE)]) {
        assert_eq!(plug.send(length, 0, |_| panic!("asked for {length} bytes")), Err(error));
    }
    assert!(plug.lock().expect("lock").port.sent.is_empty());
}

#[test]
fn what_became_of_a_frame_is_told() {
    let plug = plug(&[]);
    let table = [
        (Sent::Stalled, 0, Errno::NOBUFS),
        (Sent::Stalled, libc::MSG_DONTWAIT, Errno::NOBUFS),
        (Sent::Full, libc::MSG_DONTWAIT, Errno::AGAIN),
        (Sent::Refused, 0, Errno::PERM),
        (Sent::Gone, 0, Errno::CONNRESET),
    ];
    for (answer, flags, error) in table {
        plug.lock().expect("lock").port.answer = answer;
        assert_eq!(plug.send(60, flags, |_| ()), Err(error), "{answer:?}");
    }
}

#[test]
fn after_a_panic_all_is_an_error() {
    let plug = plug(&[frame(0, 60), frame(0, 60)]);
    let panicking = std::panic::AssertUnwindSafe(|| plug.receive(0, |_| panic!("on purpose")));
    assert!(std::panic::catch_unwind(panicking).is_err());
    assert_eq!(receive(&plug, 0), Err(Errno::IO));
    assert_eq!(plug.send(60, 0, |_| ()), Err(Errno::IO));
    plug.close();
}
