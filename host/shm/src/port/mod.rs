//! A member of a switch: frames in and out, past the switch.
//!
//! Every other port that one sends to has a ring of its own, made when the first frame goes there;
//! the switch gets only what goes to all. What is received is judged here, by the rules of the
//! port that sent it, after it was copied out of that port's memory. A port that lives at the
//! switch's restart goes on, and is taken for itself again. Invariants: a sender waits a bounded
//! time for a receiver, and never for another's; between two ports frames keep their order.
//! Specification: docs/abi/switch-join.md, docs/abi/switch-memory.md.

mod accept;
mod control;
mod frames;
mod idle;
mod join;
mod mirror;
mod receive;
mod rules;
mod send;
mod stations;
mod tally;
mod welcome;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use netloom_packet::Segmenter;

use crate::Result;
use crate::inbox::{Counter, Inbox};
use crate::layout::{self, HEADER, LONGEST_FRAME};
use crate::protocol::Token;
use crate::wake::{Bell, Watch};

use control::Control;
use frames::Frames;
use idle::{Linger, Spin};
use receive::In;
use rules::Rules;
use send::Out;
use stations::Stations;
pub use tally::Counters;
use tally::Flow;

/// A buffer of this many bytes takes any frame with its header, and room for a tag to be put in.
pub const MOST_FRAME: usize = HEADER + LONGEST_FRAME + TAG;

/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// How a port joins a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinOptions {
    /// The switch's socket.
    pub switch: PathBuf,
    /// The port's name: 1 to 64 bytes without control characters.
    pub name: String,
    /// The number wanted, 1 to 255; 0 for any.
    pub number: u16,
    /// Whether frames of more than one segment can be taken; else they are cut when received.
    pub super_frames: bool,
    /// Whether frames with an unfinished checksum can be taken; else it is finished when received,
    /// and super-frames are cut.
    pub checksums: bool,
    /// How long a full ring is waited for.
    pub wait: Duration,
    /// Bytes of each ring that frames are sent by: a power of two from 256 KiB to 64 MiB.
    pub arena: usize,
    /// Whether to look for the switch again when it is gone. Without, the port ends with it.
    pub reconnect: bool,
    /// Whether to take nothing but what mirror sessions copy to this port: what is flooded to it as to
    /// any other is passed over.
    pub only_copies: bool,
}

impl JoinOptions {
    /// With any number, all capabilities, 100 ms, 1 MiB, and looking for the switch again.
    pub fn new(switch: impl Into<PathBuf>, name: &str) -> Self {
        JoinOptions {
            switch: switch.into(),
            name: name.to_owned(),
            number: 0,
            super_frames: true,
            checksums: true,
            wait: Duration::from_millis(100),
            arena: layout::ring::ARENA,
            reconnect: true,
            only_copies: false,
        }
    }
}

/// What a [`SwitchPort::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame with its header: `buffer[start..start + length]`.
    Frame {
        /// Where the header begins.
        start: usize,
        /// Bytes, header included.
        length: usize,
    },
    /// A frame that did not fit: it is gone, and counted.
    Truncated,
    /// Nothing at the moment.
    Empty,
    /// The switch is gone, and there is nothing left to read.
    Gone,
}

/// What became of a frame given to [`SwitchPort::send`] and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It stands in a ring, or is held for one that is being opened.
    Done,
    /// Of [`SwitchPort::try_send`] alone: there is no room at the moment. It was not taken, and is
    /// not counted.
    Full,
    /// Lost and counted: its receiver does not read.
    Stalled,
    /// Lost and counted: too short, too long, or against this port's rules.
    Refused,
    /// Lost: the switch is gone.
    Gone,
}

/// A member of a switch.
pub struct SwitchPort {
    options: JoinOptions,
    number: u8,
    generation: u32,
    token: Token,
    inbox: Inbox,
    watch: Watch,
    /// Keeps the data descriptor readable while frames are left.
    more: Bell,
    armed: bool,
    /// Whether senders have been asked to wake us.
    asleep: bool,
    /// Whether a bell may have rung that was not cleared.
    rung: bool,
    /// Whether the last receive has seen, and cleared, what made the data descriptor readable.
    cleared: bool,
    /// Whether the port went to sleep as the last frame was taken, so that the next receive, which ends
    /// the emptying of the rings, need not clear bells again.
    quiet: bool,
    /// Whether the last receive has left that out.
    unsure: bool,
    control: Control,
    rules: Rules,
    stations: Stations,
    /// By number; 0 is the uplink.
    outs: Vec<Out>,
    /// Edges with frames that are not shown yet.
    dirty: Vec<u8>,
    /// How many edges are being opened.
    opening: u32,
    /// The downlink first.
    ins: Vec<In>,
    current: usize,
    /// How many frames the current ring may still give before others have their turn.
    budget: u32,
    /// Some of `ins` are not read before more of the downlink was taken.
    fresh: bool,
    /// Frames that were judged and are to be given out before any other.
    done: Frames,
    scratch: Vec<u8>,
    segmenter: Segmenter,
    sent: Flow,
    flooded: u64,
    /// What the switch had dropped of this number's frames when it was looked at last.
    relay_dropped: u64,
    /// Operations, to do now and then what is not needed each time.
    ticks: u32,
    spin: Spin,
    linger: Linger,
}

impl SwitchPort {
    /// The port's number, 1 to 255.
    pub fn number(&self) -> u16 {
        self.number.into()
    }

    /// Readable while a frame or a message may be there, after a [`SwitchPort::receive`] that did
    /// not find [`Received::Empty`], too: for poll(2), not for read(2). It does not tell of frames
    /// while only [`SwitchPort::receive_wait`] is used.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// Whether the last [`SwitchPort::receive`], which found [`Received::Empty`], has seen that the
    /// data descriptor was readable.
    ///
    /// # Errors
    /// As [`SwitchPort::receive`].
    pub fn was_woken(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.unsure) && self.rest()? {
            self.arm();
        }
        Ok(self.cleared || self.armed)
    }

    /// Readable, for ever, when the switch that the port has joined is gone, also when the port looks
    /// for it again and finds it; never before.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.hangup()
    }

    /// What was counted since the port joined, also over restarts of the switch.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.inbox)
    }

    /// Does what the switch has asked for. The other functions call it when it is needed; a port
    /// that is not used for long may call it when its descriptor is readable.
    ///
    /// # Errors
    /// What no kernel is known to answer here; the port may be used on.
    pub fn service(&mut self) -> Result<()> {
        self.settle();
        self.messages()
    }

    /// Every so many operations: the clock, the counters, messages of the switch.
    #[inline]
    fn tick(&mut self) -> Result<()> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(256) { self.tock() } else { Ok(()) }
    }

    #[cold]
    fn tock(&mut self) -> Result<()> {
        self.settle();
        if self.control.is_due() { self.messages() } else { Ok(()) }
    }

    /// Sets the clock, writes the counters.
    fn settle(&mut self) {
        self.stations.set_now(self.control.look_at_clock());
        tally::sent(&self.inbox, &mut self.sent, &mut self.flooded);
        for of in &mut self.ins {
            of.settle(&self.inbox);
        }
        let dropped = self.dropped_by_switch();
        let more = dropped.saturating_sub(std::mem::replace(&mut self.relay_dropped, dropped));
        self.inbox.add(Counter::RelayDropped, more);
    }

    /// What the switch says to have dropped of what this number has sent up.
    fn dropped_by_switch(&self) -> u64 {
        match self.outs.first() {
            Some(Out::Open(edge)) => edge.ring.inbox().of_sender(self.number.into()).drops,
            _ => self.relay_dropped,
        }
    }

    fn count(&self, counter: Counter) {
        self.inbox.add(counter, 1);
    }

    /// Reads the rules if they have changed.
    #[inline]
    fn look_at_rules(&mut self) {
        if !self.rules.is_current() && self.rules.read() {
            // Addresses are of a VLAN, or of none, as the switch is now.
            self.stations.clear(&self.inbox);
        }
    }
}

impl std::fmt::Debug for SwitchPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SwitchPort")
            .field("switch", &self.options.switch)
            .field("name", &self.options.name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Drop for SwitchPort {
    fn drop(&mut self) {
        self.finish();
        self.settle();
        self.leave();
    }
}
