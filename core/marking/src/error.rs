//! Errors of measurements.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The guard does not fit into the period (RFC 9341, section 5: d < L/2).
    #[error(
        "period of {period} ns: guard of {guard} ns does not fit: packets may come a guard early or \
         late, so it must be less than half a period; take a period above {least} ns or a \
         smaller guard"
    )]
    Guard {
        /// The period in nanoseconds.
        period: u64,
        /// The guard in nanoseconds.
        guard: u64,
        /// Twice the guard: the period must be above it.
        least: u64,
    },
    /// A period of zero, or too long for clocks.
    #[error("period of {period} ns: it must be from 2 to {most} ns")]
    Period {
        /// The period in nanoseconds.
        period: u64,
        /// The longest.
        most: u64,
    },
    /// The first block begins so early that a packet ahead of it would have a time below 0.
    #[error("block 0: starts at {start} ns: must start half a period ({half} ns) or more after 0")]
    Start {
        /// The start in nanoseconds.
        start: u64,
        /// Half a period.
        half: u64,
    },
    /// Marks that are ambiguous or do not fit into the DSCP field.
    #[error("marks: {0}")]
    Marks(&'static str),
    /// A selection that hashes cannot achieve.
    #[error("selection: {0}")]
    Selection(&'static str),
    /// Records that cannot be compared.
    #[error("comparison: block {first} with block {second}: not the same block")]
    Blocks {
        /// The block of the first record.
        first: u64,
        /// The block of the second.
        second: u64,
    },
    /// A block without the path's points.
    #[error("way: a block of {0} points: it must have one for each point, and two at least")]
    Points(usize),
    /// More distinct masks than tables.
    #[error(
        "filters: {masks} different sets of prefix lengths and wildcards; at most {most}: use fewer \
         prefix lengths, or one session for each part"
    )]
    Masks {
        /// How many there are.
        masks: usize,
        /// The maximum.
        most: usize,
    },
}
