//! Alternate marking: which block a packet belongs to, and the evaluation of blocks from several points.
//!
//! A packet's processing: [`Packet`] reads its headers, [`Tables`] finds its filter, [`Marks`] its
//! colour, [`Schedule`] its block; [`Banks`] counts it; [`Hasher`] and [`Selection`] (or [`Samples`])
//! decide whether its time is kept. Then [`compare`] turns the records of two points into
//! loss, delay and jitter, and [`match_samples`] into delays packet by packet; [`total`] combines
//! blocks. [`session`] is the configuration of a measurement.
//!
//! Everything here is a function of its arguments; times are nanoseconds of the point's clock. The
//! kernel's programs for the same purpose must behave identically. Specifications: RFC 9341
//! (alternate marking), RFC 9342 (several points), RFC 5475 (selection of packets by hash).

#![forbid(unsafe_code)]

mod bank;
mod colour;
mod compare;
mod counters;
mod error;
pub mod filter;
mod hash;
mod input;
mod mark;
mod matched;
mod packet;
mod path;
mod quantile;
mod record;
mod schedule;
mod select;
pub mod session;
pub mod tables;
pub mod total;
mod two_way;

pub use bank::{Banks, Outcome, Seen};
pub use colour::Colour;
pub use compare::{Comparison, Estimate, block_mean_variation, compare, double_delay};
pub use counters::{Counters, Tally, Totals};
pub use error::{Error, Result};
pub use filter::{Filter, Key, Precedence};
pub use hash::{HashFunction, bob, crc32, ipsx};
pub use input::{Hasher, Input, Offload, PayloadPart, Profile, Segment, Unhashable};
pub use mark::{DoubleMarker, Mark, Marks};
pub use matched::{Matched, match_samples};
pub use packet::Packet;
pub use path::{Hop, cluster_loss, hops};
pub use quantile::{Population, Quantile};
pub use record::{Completeness, Record};
pub use schedule::{BANKS, Schedule, guard_for};
pub use select::{Sample, Samples, Selection, Threshold};
pub use tables::Tables;
pub use two_way::{SampledTwoWay, TwoWay};

#[cfg(test)]
extern crate self as netloom_marking;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
