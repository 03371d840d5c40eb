//! What a generator sends, and what a receiver finds out about it.
//!
//! What to send: [`Sizes`], [`Rate`], [`Flows`], and the frames themselves ([`Addresses`], [`Frame`]), each
//! with a [`Stamp`] of its number and its departure. When to send: [`Schedule`] for generated frames,
//! [`Replay`] for those of a file. The result: a [`Receiver`] counts lost, duplicated and
//! reordered frames and keeps a [`Histogram`] of latencies; a [`Notice`] tells it how many there were.
//!
//! Frames are measured in two ways. A *size* is that of RFC 2544: from the Ethernet header through the
//! frame check sequence, which has 4 bytes; the minimum is 64. A *length* is what an interface gets:
//! 4 bytes less. Times are nanoseconds.

#![forbid(unsafe_code)]

mod error;
mod flows;
mod frame;
mod histogram;
mod notice;
mod rate;
mod receiver;
mod replay;
mod schedule;
mod sizes;
mod stamp;
mod window;

pub use error::{Error, Result};
pub use flows::{Flow, Flows, MOST_FLOWS, PORTS};
pub use frame::{Addresses, Frame};
pub use histogram::Histogram;
pub use notice::{NOTICE, Notice, SentFrames};
pub use rate::Rate;
pub use receiver::{Loss, Receiver, Start, Stream, Verdict};
pub use replay::{Replay, Speed, Tempo};
pub use schedule::Schedule;
pub use sizes::{FCS, LEAST_SIZE, MOST_SIZE, Sizes};
pub use stamp::{MAGIC, SEQUENCES, STAMP, Stamp, stamp};
