//! A member of a switch: sends and receives frames, bypassing the switch.
//!
//! Every destination port has its own ring, created with the first frame to it; the switch gets
//! only frames for all ports. The receiver checks frames by the sending port's rules, after copying
//! them out of that port's memory. A port that survives the switch's restart continues and is
//! recognised. Invariants: a sender waits a bounded time for its receiver, and never for another;
//! frames between two ports stay in order. Specification: docs/abi/switch-join.md,
//! docs/abi/switch-memory.md.

mod accept;
mod control;
mod drain;
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

use crate::inbox::{Counter, Inbox};
use crate::layout::{self, HEADER, LONGEST_FRAME};
use crate::name::Address;
use crate::protocol::{Channel, Token};
use crate::protocol::{Message, Posted};
use crate::wake::{Bell, Watch};
use crate::{Error, Result};

use control::Control;
use frames::Frames;
use idle::{Linger, Spin};
use receive::In;
use rules::Rules;
use send::Out;
use stations::Stations;
pub use tally::Counters;
use tally::Flow;

/// A buffer of this size holds any frame with its header, and room to insert a tag.
pub const MOST_FRAME: usize = HEADER + LONGEST_FRAME + TAG;

/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// Options of a port that joins a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinOptions {
    /// The switch's socket.
    pub switch: PathBuf,
    /// Whether the switch has to be one of this user's or root's, as one that was found by its name has.
    pub own: bool,
    /// The port's name: 1 to 64 bytes without control characters.
    pub name: String,
    /// The number wanted, 1 to 255; 0 for any.
    pub number: u16,
    /// Whether the user accepts super-frames; else they are segmented on receipt.
    pub super_frames: bool,
    /// Whether the user accepts frames with an unfinished checksum; else it is finished on receipt,
    /// and super-frames are segmented.
    pub checksums: bool,
    /// Longest wait for room in a full ring.
    pub wait: Duration,
    /// Bytes of each transmit ring: a power of two from 256 KiB to 64 MiB.
    pub arena: usize,
    /// Whether to look for the switch again when it is gone; else the port ends with it.
    pub reconnect: bool,
    /// Whether to accept only copies of mirror sessions to this port: frames flooded to it like to
    /// any other are skipped.
    pub only_copies: bool,
    /// Whether to tell the switch at once when a station moves to another port.
    pub tells_moves: bool,
}

impl JoinOptions {
    /// The same for a switch that a user named.
    pub fn at(address: &Address, name: &str) -> Self {
        JoinOptions { own: address.found, ..JoinOptions::new(&address.path, name) }
    }

    /// Options with any number, all capabilities, 100 ms, 1 MiB, and reconnect.
    pub fn new(switch: impl Into<PathBuf>, name: &str) -> Self {
        JoinOptions {
            switch: switch.into(),
            own: false,
            name: name.to_owned(),
            number: 0,
            super_frames: true,
            checksums: true,
            wait: Duration::from_millis(100),
            arena: layout::ring::ARENA,
            reconnect: true,
            only_copies: false,
            tells_moves: false,
        }
    }
}

impl JoinOptions {
    /// Connects to the switch, and sees whether it is whose it has to be.
    fn connect(&self, patience: Duration) -> Result<Channel> {
        let channel = Channel::connect(&self.switch, patience)?;
        let uid = channel.peer()?.uid;
        match !self.own || uid == 0 || uid == rustix::process::geteuid().as_raw() {
            true => Ok(channel),
            false => Err(Error::Stranger { switch: self.switch.clone(), uid }),
        }
    }
}

/// The outcome of a [`SwitchPort::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame with its header: `buffer[start..start + length]`.
    Frame {
        /// Offset of the header.
        start: usize,
        /// Length in bytes, including the header.
        length: usize,
    },
    /// A frame that did not fit: it is lost, and counted.
    Truncated,
    /// Nothing is pending.
    Empty,
    /// The switch is gone, and there is nothing left to read.
    Gone,
}

/// The outcome for a frame given to [`SwitchPort::send`] and similar functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in a ring, or is held for one that is being opened.
    Done,
    /// Only from [`SwitchPort::try_send`]: there is no room now. It was not accepted, and is not
    /// counted.
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
    /// Whether an uncleared bell may have rung.
    rung: bool,
    /// Whether the last receive found, and cleared, the data descriptor readable.
    cleared: bool,
    /// Whether the port went to sleep when the last frame was taken, so the next receive, which
    /// finds the rings empty, need not clear bells again.
    quiet: bool,
    /// Whether the last receive skipped that.
    unsure: bool,
    control: Control,
    rules: Rules,
    stations: Stations,
    /// Indexed by number; 0 is the uplink.
    outs: Vec<Out>,
    /// Edges with unpublished frames.
    dirty: Vec<u8>,
    /// Number of edges being opened.
    opening: u32,
    /// Counts frames to stations that are not known here.
    sought: u32,
    /// The downlink first.
    ins: Vec<In>,
    current: usize,
    /// Frames that the current ring may still deliver before others have their turn.
    budget: u32,
    /// Some of `ins` are not read until more of the downlink was taken.
    fresh: bool,
    /// Checked frames to deliver before any other.
    done: Frames,
    scratch: Vec<u8>,
    segmenter: Segmenter,
    sent: Flow,
    flooded: u64,
    /// The switch's drop count for this number at the last check.
    relay_dropped: u64,
    /// Counts operations, for periodic work.
    ticks: u32,
    spin: Spin,
    linger: Linger,
}

impl SwitchPort {
    /// The port's number, 1 to 255.
    pub fn number(&self) -> u16 {
        self.number.into()
    }

    /// Readable while a frame or a message may be present, even after a [`SwitchPort::receive`]
    /// that did not find [`Received::Empty`]: for poll(2), not for read(2). It does not report
    /// frames while only [`SwitchPort::receive_wait`] is used.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// Whether the last [`SwitchPort::receive`], which found [`Received::Empty`], found the data
    /// descriptor readable.
    ///
    /// # Errors
    /// As [`SwitchPort::receive`].
    pub fn was_woken(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.unsure) && self.rest()? {
            self.arm();
        }
        Ok(self.cleared || self.armed)
    }

    /// Becomes and stays readable when the switch that the port joined is gone, even if the port
    /// then finds it again; never before.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.hangup()
    }

    /// Counters since the port joined, across restarts of the switch.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.inbox)
    }

    /// Counts frames that the owner lost between the port and what it joins to the switch.
    pub fn lose(&self, frames: u64) {
        self.inbox.add(Counter::DroppedInterface, frames);
    }

    /// Carries out the switch's messages. The other functions call it as needed; a port unused for
    /// long may call it when its descriptor is readable.
    ///
    /// # Errors
    /// An answer that no kernel is known to give here; the port remains usable.
    pub fn service(&mut self) -> Result<()> {
        self.settle();
        self.messages()
    }

    /// Periodically: the clock, the counters, the switch's messages.
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

    /// Updates the clock, writes the counters.
    fn settle(&mut self) {
        self.stations.set_now(self.control.look_at_clock());
        self.tell_moves();
        tally::sent(&self.inbox, &mut self.sent, &mut self.flooded);
        for of in &mut self.ins {
            of.settle(&self.inbox);
        }
        let dropped = self.dropped_by_switch();
        let more = dropped.saturating_sub(std::mem::replace(&mut self.relay_dropped, dropped));
        self.inbox.add(Counter::RelayDropped, more);
    }

    /// Tells the switch that a station has moved, if it is to know; later, if its socket is full.
    #[inline]
    fn tell_moves(&mut self) {
        if self.options.tells_moves && self.stations.take_moved() {
            self.tell_moved();
        }
    }

    #[cold]
    fn tell_moved(&mut self) {
        let Some(channel) = self.control.channel() else { return };
        // A switch that is gone is told nothing: the next one begins without results.
        if matches!(channel.send(&Message::Moved, &[]), Ok(Posted::Full)) {
            self.stations.keep_moved();
        }
    }

    /// The switch's drop count for frames that this number sent up.
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
            // Learned addresses belong to a VLAN or to none, by the switch's present setting.
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
