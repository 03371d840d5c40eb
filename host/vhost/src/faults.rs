//! Counters of what a port's other side did wrong.

/// What guests and front ends did wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Malformed chains of descriptors: returned unused, the frame is lost.
    pub chains: u64,
    /// Queues stopped because their rings were invalid.
    pub queues: u64,
    /// Invalid requests of front ends.
    pub requests: u64,
}
