//! What a wire does to frames: delay, jitter, loss, duplication, reordering, corruption and rate.
//!
//! [`Impairments`] is what was asked for; it has no state. It does no I/O and reads no clock: time
//! comes as an argument, and every random number from a seed, so that the same seed and the same
//! packets give the same fate.

pub mod spec;

pub use spec::{
    Bursts, Distribution, Impairments, Jitter, Loss, Problem, Queue, RandomLoss, Share,
};
