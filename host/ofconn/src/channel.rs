//! One connection that speaks OpenFlow: bytes to messages, and a bounded queue of what the other end has not taken.
//!
//! Nothing here blocks. While many answers wait, no further request is read, so answers are bounded by one
//! request. Packets for a controller that is slower than they come are left out and counted, at best before anything is
//! done for them ([`Channel::is_full`]); they never keep its requests from being read, since these are what ends the
//! packets. The server closes a peer that takes nothing for a while, or lets too much wait.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use netloom_openflow::header::HEADER_LEN;
use netloom_openflow::stream::Stream;
use netloom_openflow::{Message, Version, encode};

use crate::Time;
use crate::link::Link;

/// Bytes read at a time: room for [`Channel::next`].
pub const READ: usize = 64 * 1024;

/// Queued bytes of answers beyond which no further request is read.
const PAUSE: usize = 256 * 1024;

/// Queued bytes of packets beyond which no more are to be made of frames, and up to which they are made again. A long queue
/// helps nobody: while a packet waits in it, more of its flow follow.
const FULL: usize = 128 * 1024;
const ROOM: usize = FULL / 2;

/// Queued bytes of packets beyond which packets are left out: what a turn makes beyond `FULL`.
const MOST_PACKETS: usize = 1 << 20;

/// Messages written at a time.
const PIECES: usize = 64;

/// The type of a packet-in, in both versions.
const PACKET_IN: u8 = 10;

/// The transaction id of echo requests.
const PROBE: u32 = 0x6e6c_6f6d;

/// Nanoseconds in a second.
const SECOND: Time = 1_000_000_000;

/// What a connection's silence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Nothing yet; it is to be looked at then.
    Short(Time),
    /// It is to be asked for an echo ([`Channel::probe`]), and looked at then.
    Long(Time),
    /// It is to be closed.
    Over(&'static str),
}

/// The other end is gone, or did what no peer may.
#[derive(Debug)]
pub struct Gone(pub String);

/// A connection.
#[derive(Debug)]
pub struct Channel {
    link: Link,
    stream: Stream,
    queue: VecDeque<Vec<u8>>,
    /// Bytes of the first message in the queue that have been taken.
    taken: usize,
    queued: usize,
    /// Bytes of the packets in the queue.
    packets: usize,
    /// Whether no packets are made for it.
    pub full: bool,
    /// The other end, for people.
    pub peer: String,
    /// Seconds since 1970.
    pub since: u64,
    /// Messages received.
    pub received: u64,
    /// Messages sent, or queued to be.
    pub sent: u64,
    /// Packets left out.
    pub packet_ins_dropped: u64,
    /// When something came last.
    pub heard: Time,
    /// When the queue last became shorter, or something was put into an empty one.
    pub moved: Time,
    /// Whether it was asked for an echo since something came.
    pub probed: bool,
    /// It is read however much waits to be taken: what comes in is not answered on it. Otherwise two sides of which each
    /// waits until the other reads could wait for ever.
    pub heeds_all: bool,
    /// It is closed when the queue is empty.
    pub closing: bool,
    /// Whole messages may wait in the stream.
    pub more: bool,
    /// What epoll watches it for: reading, writing.
    pub watched: (bool, bool),
}

impl Channel {
    /// A connection that begins now.
    pub fn new(link: Link, peer: String, now: Time) -> Channel {
        Channel {
            link,
            stream: Stream::default(),
            queue: VecDeque::new(),
            taken: 0,
            queued: 0,
            packets: 0,
            full: false,
            peer,
            since: now_in_seconds(),
            received: 0,
            sent: 0,
            packet_ins_dropped: 0,
            heard: now,
            moved: now,
            probed: false,
            heeds_all: false,
            closing: false,
            more: false,
            watched: (true, false),
        }
    }

    /// Bytes that the other end has not taken.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Bytes of memory for what came in and is not yet a whole message, or is not read.
    pub fn held(&self) -> usize {
        self.stream.held()
    }

    /// Whether requests are not read for now.
    pub fn is_paused(&self) -> bool {
        self.closing || !self.heeds_all && self.has_backlog()
    }

    /// Whether much that was queued has not been taken, packets aside.
    pub fn has_backlog(&self) -> bool {
        self.queued.saturating_sub(self.packets) > PAUSE
    }

    /// What epoll is to watch: reading, writing.
    pub fn wants(&self) -> (bool, bool) {
        let writes = self.queued > 0 && self.link.takes() || self.link.wants_write();
        // While whole messages are in hand, more bytes on the socket need not wake anybody.
        (!self.is_paused() && !self.more, writes)
    }

    /// The next whole message, unless reading is paused or nothing more is there. `room` is for what is read.
    pub fn next(&mut self, room: &mut [u8], now: Time) -> Result<Option<Vec<u8>>, Gone> {
        // Until the end is seen: a pause, or one message at a time, may leave whole messages
        // behind.
        self.more = true;
        while !self.is_paused() {
            let whole = self.stream.next_message().map_err(|e| Gone(e.to_string()))?;
            if let Some(message) = whole.map(<[u8]>::to_vec) {
                self.received += 1;
                return Ok(Some(message));
            }
            if !self.fill(room, now)? {
                self.more = false;
                break;
            }
        }
        Ok(None)
    }

    /// Reads what is there, a bounded amount; returns whether anything was.
    fn fill(&mut self, room: &mut [u8], now: Time) -> Result<bool, Gone> {
        match self.link.read(room) {
            Ok(0) => Err(Gone("the other end closed it".into())),
            Ok(length) => {
                self.stream.push(room.get(..length).unwrap_or(&[]));
                self.heard = now;
                self.probed = false;
                Ok(true)
            }
            Err(e) if is_later(&e) => Ok(false),
            Err(e) => Err(Gone(e.to_string())),
        }
    }

    /// Whether it takes no more packets for now.
    pub fn is_full(&self) -> bool {
        self.packets > if self.full { ROOM } else { FULL }
    }

    /// Queues a message; returns whether it was, and not left out.
    pub fn post(&mut self, message: Vec<u8>, now: Time) -> bool {
        if is_packet(&message) {
            if self.packets + message.len() > MOST_PACKETS {
                self.packet_ins_dropped += 1;
                return false;
            }
            self.packets += message.len();
        }
        if self.queued == 0 {
            self.moved = now;
        }
        debug_assert!(message.len() >= HEADER_LEN, "a message without a header");
        self.queued += message.len();
        self.queue.push_back(message);
        self.sent += 1;
        true
    }

    /// Writes what the other end takes.
    pub fn flush(&mut self, now: Time) -> Result<(), Gone> {
        while !self.queue.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let mut skipped = self.taken;
            for (piece, message) in pieces.iter_mut().zip(&self.queue) {
                *piece = IoSlice::new(message.get(skipped..).unwrap_or(&[]));
                skipped = 0;
            }
            let count = self.queue.len().min(PIECES);
            match self.link.write(pieces.get(..count).unwrap_or(&[])) {
                Ok(0) => break,
                Ok(length) => {
                    self.moved = now;
                    self.take(length);
                }
                Err(e) if is_later(&e) => break,
                Err(e) => return Err(Gone(e.to_string())),
            }
        }
        self.link.flush().map_err(|e| Gone(e.to_string()))
    }

    /// The other end has taken this many bytes.
    fn take(&mut self, length: usize) {
        self.queued -= length;
        self.taken += length;
        while let Some(message) = self.queue.front()
            && message.len() <= self.taken
        {
            self.taken -= message.len();
            if is_packet(message) {
                self.packets -= message.len();
            }
            self.queue.pop_front();
        }
    }

    /// Gives back memory that was taken for more than waits now.
    pub fn rest(&mut self) {
        self.stream.shrink();
        self.queue.shrink_to(2 * self.queue.len());
    }

    /// What its silence means, if the other end is asked for an echo after `span`, and given up after as long again. What
    /// has more to say, which nobody has read yet, is not silent.
    pub fn silence(&mut self, now: Time, span: Time, has_more: bool) -> Silence {
        let silent = self.heard + if self.probed { 2 * span } else { span };
        let stuck = self.moved + 2 * span;
        if self.queued > 0 && now >= stuck {
            return Silence::Over("it does not read");
        }
        if now < silent {
            return Silence::Short(silent);
        }
        // Nobody reads it now, so that `heard` says nothing about the other end.
        if self.is_paused() || has_more {
            return Silence::Short(stuck.max(now + SECOND));
        }
        if self.probed {
            return Silence::Over("it does not answer");
        }
        self.probed = true;
        Silence::Long(self.heard + 2 * span)
    }

    /// Asks the other end for an echo.
    pub fn probe(&mut self, version: Version, now: Time) {
        if let Ok(echo) = encode(version, PROBE, &Message::EchoRequest(vec![])) {
            self.post(echo, now);
        }
    }

    /// Whether nothing is left to write.
    pub fn is_flushed(&self) -> bool {
        self.queued == 0 && !self.link.wants_write()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// Seconds since 1970.
fn now_in_seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn is_packet(message: &[u8]) -> bool {
    message.get(1) == Some(&PACKET_IN)
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
