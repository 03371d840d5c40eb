//! Capture: writes frames of interfaces and switches to standard files, each frame accounted for.
//!
//! A [`Pipeline`] takes frames by [`Engine`]s, one thread each. It copies each frame once, as its
//! block in the file, into memory that its writer passes unchanged to the disk. At its end it
//! reports where every frame has gone ([`Ledger`]). Capture never waits for the writer.
//!
//! Order: frames of several interfaces are in time order; a frame later than ones already written
//! is written behind them and counted ([`Snapshot::late`]). Frames of one interface are in time
//! order within a chunk (4 MiB, or 200 ms of frames), whichever CPU received them. Chunks are in
//! the order in which they were filled, so times may go back from one chunk to the next, further if
//! several threads fill chunks in parallel.
//! A file is valid at any moment, even if its writer is killed: chunks end at block boundaries and
//! are padded by a block that readers skip. A file cut otherwise is read by `netloom_pcap::read` up
//! to `Error::Cut`, which tells where. Times are UTC.

#![forbid(unsafe_code)]

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
mod poll;
mod queue;
mod record;
mod rotation;
mod shared;
mod sink;
mod sort;
mod writer;

pub use counts::Counts;
pub use engine::{Engine, EngineKind, Round, choose};
pub use error::{Error, Result};
pub use filler::Filler;
pub use head::{About, Description, Format};
pub use ledger::{Ledger, Lost};
pub use output::FileOptions;
pub use pipeline::{Interface, Options, Pipeline, Report, Snapshot, Source, Stopper, Target};
pub use poll::Reopen;
pub use record::Frame;
pub use rotation::Rotation;
pub use shared::End;
pub use sink::Sink;

#[cfg(test)]
extern crate self as netloom_capture;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
