//! Capture: frames of interfaces and switches to standard files, each accounted for.
//!
//! A [`Pipeline`] takes frames by [`Engine`]s, one thread each, copies each frame once, as the block
//! that stands in the file, into memory that its writer gives to the disk as it is, and says at its end
//! where every frame has gone ([`Ledger`]). Who takes never waits for who writes.
//!
//! Order: frames of several interfaces stand by time; what comes so late that others were written is
//! written behind them and counted ([`Snapshot::late`]). Frames of one interface stand by time inside a
//! chunk (4 MiB, or what came in 200 ms), whatever processor they came by; chunks stand in the order in
//! which they were filled, so that from one to the next times may go back, by more where several threads
//! fill chunks side by side.
//! A file is valid at any moment of its life, also when its writer is killed: chunks end where blocks
//! end and are filled up by a block that readers pass over. One that was cut by other powers is read by
//! `netloom_pcap::read` up to `Error::Cut`, which tells where. Times are UTC.

#![forbid(unsafe_code)]

mod catch;
mod counts;
pub mod engine;
mod error;
mod filler;
mod head;
mod keeper;
mod ledger;
mod merge;
mod output;
mod pipeline;
mod queue;
mod record;
mod rotation;
mod shared;
mod sort;
mod writer;

pub use catch::Reopen;
pub use counts::Counts;
pub use engine::{Engine, EngineKind, Round, choose};
pub use error::{Error, Result};
pub use filler::Filler;
pub use head::{About, Description, Format};
pub use ledger::{Ledger, Lost};
pub use output::FileOptions;
pub use pipeline::{Interface, Options, Pipeline, Report, Snapshot, Source, Stopper, Target};
pub use record::Frame;
pub use rotation::Rotation;
pub use shared::End;

#[cfg(test)]
extern crate self as netloom_capture;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
