//! What is to be sent.

use std::time::Duration;

use netloom_traffic::{Addresses, FCS, Flows, Frame, Rate, Sizes};

use crate::Result;

/// How long after the end frames are sent that were due before.
const GRACE: u64 = 1_000_000_000;
/// Frames a second from which on they are made in the kernel, where that can be.
const MANY: f64 = 4e5;
/// Bits of the smallest frame with its check sequence.
const LEAST_BITS: f64 = 64.0 * 8.0;

/// What is sent.
#[derive(Clone, Debug)]
pub struct Spec {
    /// From whom and for whom.
    pub addresses: Addresses,
    /// Sizes, in turn.
    pub sizes: Sizes,
    /// How fast.
    pub rate: Rate,
    /// How many flows, in turn.
    pub flows: Flows,
    /// The stream's number in the stamps.
    pub stream: u16,
    /// After how many frames it ends.
    pub frames: Option<u64>,
    /// After what time it ends: no frame is due at or after it. Frames that are late then are still
    /// sent, for at most a second.
    pub duration: Option<Duration>,
    /// Frames that the kernel makes at a time, 1 to 256, and for how many of them it looks at the clock
    /// once (0: once a call). For frames made in the kernel alone.
    pub batch: (u32, u32),
}

impl Spec {
    /// Smallest frames of one flow and of stream 0, as fast as it goes, until it is stopped.
    pub fn new(addresses: Addresses) -> Spec {
        let sizes = Sizes::Fixed(u32::try_from(addresses.least_length()).unwrap_or(60) + FCS);
        Spec {
            addresses,
            sizes,
            rate: Rate::Max,
            flows: Flows::ONE,
            stream: 0,
            frames: None,
            duration: None,
            batch: (64, 1),
        }
    }

    /// The longest frame without check sequence.
    pub(crate) fn longest(&self) -> u32 {
        self.sizes.most().saturating_sub(FCS)
    }

    /// The longest frame, where everything is as it may be.
    pub(crate) fn check(&self) -> Result<Frame> {
        self.sizes.check()?;
        self.rate.check()?;
        let bytes = |size: u32| usize::try_from(size.saturating_sub(FCS)).unwrap_or(usize::MAX);
        // The smallest must hold a stamp, too.
        Frame::new(&self.addresses, bytes(self.sizes.least()), self.stream)?;
        Ok(Frame::new(&self.addresses, bytes(self.sizes.most()), self.stream)?)
    }

    /// Whether so many frames a second are asked for that one call each is too much.
    pub(crate) fn is_many(&self) -> bool {
        match self.rate {
            Rate::Max => true,
            Rate::Packets(rate) => rate > MANY,
            Rate::Bits(rate) => rate / LEAST_BITS > MANY,
        }
    }

    /// How many frames may be sent yet, after `sent`.
    pub(crate) fn left(&self, sent: u64) -> u64 {
        self.frames.map_or(u64::MAX, |frames| frames.saturating_sub(sent))
    }

    /// Whether so long after the start nothing is sent any more, not even what is late.
    pub(crate) fn is_over(&self, since: u64) -> bool {
        since >= self.end().saturating_add(GRACE)
    }

    /// After how many nanoseconds it ends.
    pub(crate) fn end(&self) -> u64 {
        self.duration.map_or(u64::MAX, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}
