//! Generate and replay: sends frames at exact rates, and measures their fate.
//!
//! A [`Generator`] sends stamped frames and a [`Replayer`] the frames of a capture file, each at its due
//! time; both report the timing error. A [`Receive`] measures stamped frames at another interface: loss,
//! duplicates, reordering, latency; [`Announced`] and [`Senders`] are how it learns what was sent. An [`Engine`] determines how frames are sent.
//!
//! Interfaces are indexes in the calling thread's network namespace, both at open and during a run. A run
//! uses only the calling thread (a replay reads its file on one more) and keeps a CPU busy while it waits for
//! the next frame.

#![forbid(unsafe_code)]

mod clock;
mod error;
mod far;
mod generator;
mod live;
mod notices;
mod order;
mod outlet;
mod pace;
mod priority;
mod realtime;
mod receive;
mod replay;
mod report;
mod source;
mod spec;

pub use error::{Error, Result};
pub use far::FarEnd;
pub use generator::{Engine, Generator, Target};
pub use notices::{Announced, Senders};
pub use outlet::SwitchPort;
pub use receive::{Receive, ReceiveOptions};
pub use replay::{LONG_GAP, ReplayOptions, Replayer};
pub use report::{
    Latency, Pacing, ReceiveReport, ReplayReport, SendReport, Skipped, StreamReport, UsedEngine,
};
pub use spec::Spec;

#[cfg(test)]
extern crate self as netloom_generate;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
