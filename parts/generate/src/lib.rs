//! Generate and replay: frames at exact rates, and what became of them.
//!
//! A [`Generator`] sends frames with stamps, a [`Replayer`] those of a capture file, each when it is due on
//! the clock, and tells how far off each was. A [`Receive`] finds what came of stamped frames at another
//! interface: lost, duplicated, reordered, how late. By which way frames go is an [`Engine`].
//!
//! Interfaces are indexes in the calling thread's network namespace, when something is opened and when
//! it runs. A run uses the calling thread alone (a replay reads its file on one more), and keeps a
//! processor busy while it waits for the next frame.

#![forbid(unsafe_code)]

mod clock;
mod eager;
mod error;
mod far;
mod generator;
mod live;
mod order;
mod outlet;
mod pace;
mod receive;
mod replay;
mod report;
mod source;
mod spec;

pub use error::{Error, Result};
pub use far::FarEnd;
pub use generator::{Engine, Generator, Target};
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
