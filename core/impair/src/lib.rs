//! What a wire does to frames: delay, jitter, loss, duplication, reordering, corruption and rate.
//!
//! [`Impairments`] is the configuration; it has no state. [`Direction`] decides the fates of
//! packets and keeps the [`Ledger`]. [`bucket`] has token buckets and the rule by which senders
//! share a budget. Nothing here does I/O or reads a clock: time comes as an argument, and every
//! random number from a seed, so that the same seed and the same packets give the same fates.

pub mod bucket;
mod check;
pub mod engine;
mod jitter;
pub mod ledger;
mod loss;
mod pace;
mod random;
pub mod spec;

pub use check::LEAST_RATE;
pub use engine::{Direction, Fate, Packet};
pub use ledger::{Cause, Count, Ledger, Losses};
pub use random::seed_for;
pub use spec::{
    Bursts, Distribution, Impairments, Jitter, Loss, Problem, Queue, RandomLoss, Share,
};
