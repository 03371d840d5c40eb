//! The loop that pings all pairs: send within a window, read, retry.
//!
//! Consecutive packets differ in both source and target. A request counts as in flight until it is answered
//! or [`SETTLE`] has passed, so that silent nodes slow the run but do not stop it. A request unanswered after
//! a third of the timeout is repeated. Invariants: `in_flight` is the number of pairs in state `InFlight`;
//! `open` is the number of pairs neither answered nor given up; a pair is in at most one of the two queues.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_sys::Failure;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};

use super::packet::{self, Mark, Probe};
use super::{ATTEMPTS, Version, WINDOW};
use crate::Result;
use crate::error::failed;

/// How long an unanswered request keeps its place in the window, in microseconds.
const SETTLE: u64 = 4_000;

/// Requests sent between two reads of the sockets: few, so that answers are read soon.
const BURST: usize = 16;

/// Packets read from one socket before the next socket's turn.
const READS: usize = 64;

/// A participant.
#[derive(Debug)]
pub(super) struct End<'a> {
    /// Its row and column in the table.
    pub(super) row: usize,
    pub(super) name: &'a str,
    pub(super) address: IpAddr,
    /// What it sends by; `None` if it only answers.
    pub(super) socket: Option<OwnedFd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    InFlight,
    Settled,
    Answered,
    GivenUp,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    source: u32,
    target: u32,
    attempt: u8,
    at: u64,
}

/// A run over all pairs of ends.
pub(super) struct Rounds<'a> {
    ends: &'a [End<'a>],
    version: Version,
    mark: Mark,
    epoll: OwnedFd,
    start: Instant,
    /// Microseconds between attempts, and from the last attempt to giving up.
    interval: u64,
    settle: u64,
    states: Vec<State>,
    /// Number of the next pair that has had no request.
    next_fresh: usize,
    settling: VecDeque<Sent>,
    waiting: VecDeque<Sent>,
    in_flight: usize,
    open: usize,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        ends: &'a [End<'a>],
        version: Version,
        timeout: Duration,
    ) -> Result<Rounds<'a>> {
        let refused = |e: Errno, name: &str| {
            let e = Failure::new("epoll", "watch ICMP socket", e);
            failed(name, "prepare to ping")(e)
        };
        let first = ends.first().map_or("", |end| end.name);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| refused(e, first))?;
        let sending = ends.iter().enumerate();
        for (index, end, socket) in sending.filter_map(|(i, e)| Some((i, e, e.socket.as_ref()?))) {
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, socket, data, epoll::EventFlags::IN)
                .map_err(|e| refused(e, end.name))?;
        }
        let mark = Mark::random().map_err(|e| {
            failed(first, "prepare to ping")(Failure::new("random bytes", "get", e))
        })?;
        let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let interval = (micros / u64::from(ATTEMPTS)).max(1);
        Ok(Rounds {
            ends,
            version,
            mark,
            epoll,
            start: Instant::now(),
            interval,
            settle: SETTLE.min(interval),
            states: vec![State::Fresh; ends.len() * ends.len()],
            next_fresh: 0,
            settling: VecDeque::new(),
            waiting: VecDeque::new(),
            in_flight: 0,
            open: ends.iter().filter(|end| end.socket.is_some()).count() * (ends.len() - 1),
        })
    }

    /// Runs until every pair has answered or is given up.
    pub(super) fn run(mut self, table: &mut [Vec<Option<u32>>]) -> Result<()> {
        let mut events = Vec::with_capacity(WINDOW);
        while self.open > 0 {
            self.settle();
            self.send_burst();
            events.clear();
            let wait = self.wait();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => {
                    let e = Failure::new("epoll", "wait for echo replies", e);
                    return Err(failed(self.ends[0].name, "ping")(e));
                }
            }
            for event in &events {
                let data = event.data;
                self.read(usize::try_from(data.u64()).unwrap_or(usize::MAX), table);
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn state(&mut self, source: u32, target: u32) -> &mut State {
        &mut self.states[source as usize * self.ends.len() + target as usize]
    }

    /// Takes expired requests out of the window and gives up pairs after the last attempt.
    fn settle(&mut self) {
        let now = self.now();
        let settle = self.settle;
        // Requests are queued in the order in which they were sent, so the first is the oldest.
        while let Some(sent) = pop_if(&mut self.settling, |s| s.at + settle <= now) {
            let state = self.state(sent.source, sent.target);
            if *state == State::InFlight {
                *state = State::Settled;
                self.in_flight -= 1;
                self.waiting.push_back(sent);
            }
        }
        let interval = self.interval;
        let over = |s: &Sent| s.attempt >= ATTEMPTS && s.at + interval <= now;
        while let Some(sent) = pop_if(&mut self.waiting, over) {
            let state = self.state(sent.source, sent.target);
            if *state == State::Settled {
                *state = State::GivenUp;
                self.open -= 1;
            }
        }
    }

    fn send_burst(&mut self) {
        for _ in 0..BURST {
            if self.in_flight >= WINDOW {
                return;
            }
            let Some((source, target, attempt)) = self.due().or_else(|| self.fresh()) else {
                return;
            };
            self.send(source, target, attempt);
        }
    }

    /// The next pair due for another attempt.
    fn due(&mut self) -> Option<(u32, u32, u8)> {
        let (now, interval) = (self.now(), self.interval);
        loop {
            let again = |s: &Sent| s.attempt < ATTEMPTS && s.at + interval <= now;
            let sent = pop_if(&mut self.waiting, again)?;
            // It may have been answered since.
            if *self.state(sent.source, sent.target) == State::Settled {
                return Some((sent.source, sent.target, sent.attempt + 1));
            }
        }
    }

    /// The next pair for its first attempt: source and source + 1, 2, … in turn.
    fn fresh(&mut self) -> Option<(u32, u32, u8)> {
        let n = self.ends.len();
        loop {
            if self.next_fresh >= n * (n - 1) {
                return None;
            }
            let (distance, source) = (self.next_fresh / n + 1, self.next_fresh % n);
            self.next_fresh += 1;
            if self.ends[source].socket.is_none() {
                continue;
            }
            let target = (source + distance) % n;
            return Some((u32::try_from(source).ok()?, u32::try_from(target).ok()?, 1));
        }
    }

    fn send(&mut self, source: u32, target: u32, attempt: u8) {
        let at = self.now();
        let probe = Probe { source, target, sent_us: at };
        let bytes = packet::request(self.version, self.mark, &probe);
        let to = SocketAddr::new(self.ends[target as usize].address, 0);
        // Only ends with a socket are sources.
        let Some(socket) = &self.ends[source as usize].socket else { return };
        match sendto(socket.as_fd(), &bytes, SendFlags::empty(), &to) {
            // No route: another attempt would not help.
            Err(Errno::NETUNREACH) => {
                *self.state(source, target) = State::GivenUp;
                self.open -= 1;
            }
            // Any other failure (full queue, unresolved neighbour) counts as a lost request.
            _ => {
                *self.state(source, target) = State::InFlight;
                self.in_flight += 1;
                self.settling.push_back(Sent { source, target, attempt, at });
            }
        }
    }

    /// Time until there is something to send or to expire.
    fn wait(&self) -> Timespec {
        let again = self.waiting.front().map(|s| s.at + self.interval);
        let settles = self.settling.front().map(|s| s.at + self.settle);
        let n = self.ends.len();
        let may_send = self.in_flight < WINDOW && self.next_fresh < n * (n - 1);
        let next = if may_send {
            Some(0)
        } else if self.in_flight < WINDOW {
            [again, settles].into_iter().flatten().min()
        } else {
            settles
        };
        let wait = next.map_or(0, |at| at.saturating_sub(self.now()));
        Timespec {
            tv_sec: i64::try_from(wait / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(wait % 1_000_000 * 1_000).unwrap_or(0),
        }
    }

    fn read(&mut self, index: usize, table: &mut [Vec<Option<u32>>]) {
        let Some(socket) = self.ends.get(index).and_then(|end| end.socket.as_ref()) else { return };
        let mut buffer = [0; 256];
        for _ in 0..READS {
            // A packet longer than the buffer is foreign. Socket errors other than "nothing more" report lost
            // requests, which the next attempt covers.
            match recvfrom(socket, &mut buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((_, length, from)) => {
                    let from = from.and_then(|a| SocketAddr::try_from(a).ok());
                    if let (Some(bytes), Some(from)) = (buffer.get(..length), from) {
                        self.take(index, bytes, from.ip(), table);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(_) => {}
            }
        }
    }

    /// Records an answer if it is one and both its ends match.
    fn take(&mut self, index: usize, bytes: &[u8], from: IpAddr, table: &mut [Vec<Option<u32>>]) {
        let Some(probe) = packet::read_reply(self.version, self.mark, bytes) else { return };
        let Some(target) = self.ends.get(probe.target as usize) else { return };
        let now = self.now();
        if probe.source as usize != index || target.address != from || probe.sent_us > now {
            return;
        }
        let (row, column) = (self.ends[index].row, target.row);
        let state = self.state(probe.source, probe.target);
        let before = *state;
        // Nothing was asked, or the answer came twice.
        if matches!(before, State::Fresh | State::Answered) {
            return;
        }
        *state = State::Answered;
        table[row][column] = Some(u32::try_from(now - probe.sent_us).unwrap_or(u32::MAX));
        if before == State::InFlight {
            self.in_flight -= 1;
        }
        // A late answer counts in the table, as long as the run lasts; the pair was taken off before.
        if before != State::GivenUp {
            self.open -= 1;
        }
    }
}

/// Takes the first element if it matches.
fn pop_if(queue: &mut VecDeque<Sent>, wanted: impl Fn(&Sent) -> bool) -> Option<Sent> {
    if wanted(queue.front()?) { queue.pop_front() } else { None }
}
