//! How late a lab was, in figures that are counted and never guessed.
//!
//! The *lateness* of a frame that a wire holds is the time at which it left less the time at which it was due ([`Lateness`]).
//! That of a direction in a stretch of time is the largest lateness of the frames that left in it, and a quantile of them:
//! exact over the last [`recent::WINDOW_NS`] ([`Recent`]), and to a quarter between any two readings
//! ([`Lateness::since`]). A process was late when it could run and waited for a processor ([`Waits`]). What the machine took
//! away is counted by its kernel ([`machine`]). How long a frame waited before its wire read it is not known: the kernel
//! notes no time there. What was lost meanwhile is, and how long the wire waited for a processor.
#![forbid(unsafe_code)]

pub mod lateness;
pub mod machine;
pub mod recent;
mod waits;

pub use lateness::Lateness;
pub use recent::Recent;
pub use waits::Waits;

/// What is at least this late is behind, in ns: more than a scheduler's slice, which an ordinary busy machine costs.
pub const LATE_NS: u64 = 10_000_000;
