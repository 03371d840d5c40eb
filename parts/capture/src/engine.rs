//! Engines that take frames: one trait, and an implementation for each mechanism of Linux.
//!
//! An engine takes the frames of one interface, or one share of them if several engines share it,
//! and puts them into a [`Filler`]. It counts offered and lost frames; at its end the sum is exact.
//! It is created in the interface's network namespace and may then be used in any thread.

mod choose;
mod pcap;
mod ring;
mod switch;
mod tpacket;

pub use crate::counts::Counts;
use std::time::Duration;

pub use choose::{Choice, Direction, Impossible, InterfaceKind, Machine, Wish, choose};
pub use pcap::Pcap;
pub use ring::Ring;
use serde::{Deserialize, Serialize};
pub use switch::Switch;
pub use tpacket::{Tpacket, TpacketOptions};

use crate::{Filler, Result};

/// The mechanisms for taking frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// A packet socket with a ring of blocks (TPACKET_V3).
    Tpacket,
    /// A BPF program at the XDP hook, with a ring for each CPU.
    XdpRing,
    /// A BPF program at the tc hooks, with a ring for each CPU.
    TcRing,
    /// A mirror port of a switch in shared memory.
    Switch,
    /// libpcap.
    Pcap,
}

impl EngineKind {
    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Tpacket => "tpacket",
            EngineKind::XdpRing => "xdp-ring",
            EngineKind::TcRing => "tc-ring",
            EngineKind::Switch => "switch",
            EngineKind::Pcap => "pcap",
        }
    }
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Frames are found at once, unless the CPU that has read their time is a guest's and is stopped.
const LAG: Duration = Duration::from_millis(20);

/// The outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Frames: all that were present when it began.
    Some,
    /// Frames, and there may be more.
    Part,
    /// No frame within the wait.
    Nothing,
    /// No frame, and none will come: the interface is gone.
    Gone,
}

/// A mechanism that takes frames of an interface.
pub trait Engine: Send {
    /// Takes a bounded number of the frames present, and waits at most `wait` for the first, and no longer than
    /// until [`Filler::call`] is readable.
    ///
    /// # Errors
    /// A failure that makes it useless. An interface that is gone is [`Round::Gone`].
    fn round(&mut self, into: &mut Filler, wait: Duration) -> Result<Round>;

    /// Ends the engine: no more frames are offered, and those offered are taken. Afterwards
    /// [`Engine::counts`] is final: offered is `filtered + lost` plus the frames put into fillers.
    ///
    /// # Errors
    /// Frames that were offered cannot be taken.
    fn finish(&mut self, into: &mut Filler) -> Result<()>;

    /// The longest delay from a frame's time until it is found, if nothing holds up the kernel.
    fn lag(&self) -> Duration {
        LAG
    }

    /// Whether its rounds end when they are called. Such an engine may wait long while there is no frame anywhere.
    fn heeds_calls(&self) -> bool {
        false
    }

    /// Its counters.
    ///
    /// # Errors
    /// The kernel does not return them.
    fn counts(&mut self) -> Result<Counts>;
}
