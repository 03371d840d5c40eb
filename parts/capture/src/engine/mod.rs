//! What frames are taken by: one trait, and an implementation for each way that Linux offers.
//!
//! An engine takes frames of one interface, or of one part of its frames where several share it, and
//! puts them into a [`Filler`]. It counts what it was offered and what it lost; at its end the sum is
//! exact. It is made where the interface is (the thread's network namespace) and may then be used in
//! any thread.

mod choose;
mod pcap;
mod ring;
mod switch;
mod tpacket;

pub use crate::counts::Counts;
use std::time::Duration;

pub use choose::{Choice, Direction, InterfaceKind, Machine, Wish, choose};
pub use pcap::Pcap;
pub use ring::Ring;
use serde::{Deserialize, Serialize};
pub use switch::Switch;
pub use tpacket::{Tpacket, TpacketOptions};

use crate::{Filler, Result};

/// The ways to take frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// A packet socket with a ring of blocks (TPACKET_V3).
    Tpacket,
    /// A BPF program at the XDP hook, with a ring for each processor.
    XdpRing,
    /// A BPF program at the tc hooks, with a ring for each processor.
    TcRing,
    /// A mirror port of a switch in shared memory.
    Switch,
    /// libpcap.
    Pcap,
}

impl EngineKind {
    /// Its name, as options have it.
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

/// Frames are found at once, unless the processor that has read their time is a guest's, and stands still.
const LAG: Duration = Duration::from_millis(20);

/// What a round has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Frames: all that there were when it began.
    Some,
    /// Frames, and there may be more.
    Part,
    /// No frame for as long as was to be waited.
    Nothing,
    /// No frame, and none will come: the interface is no more.
    Gone,
}

/// A way to take frames of an interface.
pub trait Engine: Send {
    /// Takes what there is, a bounded amount of it, and waits at most so long for the first frame.
    ///
    /// # Errors
    /// What makes it useless. An interface that is no more is [`Round::Gone`].
    fn round(&mut self, into: &mut Filler, wait: Duration) -> Result<Round>;

    /// Ends the taking: no frame is offered any more, and those that were are taken. After that
    /// [`Engine::counts`] is final, and is `filtered + lost` and what was put into fillers.
    ///
    /// # Errors
    /// When frames that were offered cannot be taken.
    fn finish(&mut self, into: &mut Filler) -> Result<()>;

    /// How long after its time a frame may come to be found, if nobody holds up the kernel.
    fn lag(&self) -> Duration {
        LAG
    }

    /// What it has counted.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn counts(&mut self) -> Result<Counts>;
}
