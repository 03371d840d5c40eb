//! What a generator sends.

use std::time::Duration;

use netloom_traffic::{Addresses, FCS, Flows, Frame, Rate, Sizes};

use crate::Result;

/// How long after the end overdue frames are still sent.
const GRACE: u64 = 1_000_000_000;
/// Rate in frames per second above which live frames are used where possible.
const MANY: f64 = 4e5;
/// Bits of the smallest frame with its check sequence.
const LEAST_BITS: f64 = 64.0 * 8.0;

/// What a generator sends.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Source and destination addresses.
    pub addresses: Addresses,
    /// Frame sizes, in turn.
    pub sizes: Sizes,
    /// The rate.
    pub rate: Rate,
    /// Number of flows, in turn.
    pub flows: Flows,
    /// The stream number in the stamps.
    pub stream: u16,
    /// Ends after this many frames.
    pub frames: Option<u64>,
    /// Ends after this time: no frame is due at or after it. Overdue frames are still sent, for at most a
    /// second.
    pub duration: Option<Duration>,
    /// For live frames only: frames that the kernel generates at a time, 1 to 256, and frames per clock read
    /// (0: one read per call).
    pub batch: (u32, u32),
}

impl Spec {
    /// Smallest frames of one flow and of stream 0, at top speed, until stopped.
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

    /// Checks everything and returns the longest frame.
    pub(crate) fn check(&self) -> Result<Frame> {
        self.sizes.check()?;
        self.rate.check()?;
        let bytes = |size: u32| usize::try_from(size.saturating_sub(FCS)).unwrap_or(usize::MAX);
        // The smallest frame must hold a stamp too.
        Frame::new(&self.addresses, bytes(self.sizes.least()), self.stream)?;
        Ok(Frame::new(&self.addresses, bytes(self.sizes.most()), self.stream)?)
    }

    /// Whether the rate is too high for one call per frame.
    pub(crate) fn is_many(&self) -> bool {
        match self.rate {
            Rate::Max => true,
            Rate::Packets(rate) => rate > MANY,
            Rate::Bits(rate) => rate / LEAST_BITS > MANY,
        }
    }

    /// Frames still to send after `sent`.
    pub(crate) fn left(&self, sent: u64) -> u64 {
        self.frames.map_or(u64::MAX, |frames| frames.saturating_sub(sent))
    }

    /// Whether sending has ended this long after the start, overdue frames included.
    pub(crate) fn is_over(&self, since: u64) -> bool {
        since >= self.end().saturating_add(GRACE)
    }

    /// Nanoseconds after which it ends.
    pub(crate) fn end(&self) -> u64 {
        self.duration.map_or(u64::MAX, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}
