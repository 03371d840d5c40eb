//! What a generator sends and what a receiver finds of it.
//!
//! What to send: [`Sizes`], [`Rate`], [`Flows`], and the frames themselves ([`Addresses`], [`Frame`]), each
//! with a [`Stamp`] that says which it is and when it left. When to send: [`Schedule`] for frames that are
//! made, [`Replay`] for those of a file. What came of it: a [`Receiver`] tells lost, duplicated and
//! reordered frames and keeps a [`Histogram`] of latencies.
//!
//! Lengths of frames are in two forms. A *size* is that of RFC 2544: from the Ethernet header to the
//! frame check sequence, which has 4 bytes; 64 is the least. A *length* is what an interface is given:
//! 4 bytes less. Times are nanoseconds.

#![forbid(unsafe_code)]

mod error;
mod flows;
mod frame;
mod histogram;
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
pub use rate::Rate;
pub use receiver::{Loss, Receiver, Start, Stream, Verdict};
pub use replay::{Replay, Speed, Tempo};
pub use schedule::Schedule;
pub use sizes::{FCS, LEAST_SIZE, MOST_SIZE, Sizes};
pub use stamp::{MAGIC, SEQUENCES, STAMP, Stamp, stamp};
