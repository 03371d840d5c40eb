//! Bursts: their limits and their results.

/// Frames of a burst, and the bytes after which it ends.
pub(crate) const BURST: usize = 64;
pub(crate) const BURST_BYTES: usize = 512 << 10;

/// Why a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was stopped.
    Stopped,
    /// The interface no longer exists.
    InterfaceGone,
    /// The switch is gone for good.
    SwitchGone,
}

/// Result of a burst in one direction.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Frames finished, carried or lost.
    pub(crate) frames: usize,
    pub(crate) end: Option<End>,
}
