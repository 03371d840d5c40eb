//! Bursts: how much is moved at a time, and what came of it.

/// Frames of a burst, and the bytes after which it ends.
pub(crate) const BURST: usize = 64;
pub(crate) const BURST_BYTES: usize = 512 << 10;

/// Why a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Stopped,
    /// The interface is no more.
    InterfaceGone,
    /// The switch is gone for good.
    SwitchGone,
}

/// What a direction has done.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Frames that came to their end here, carried or lost.
    pub(crate) frames: usize,
    pub(crate) end: Option<End>,
}
