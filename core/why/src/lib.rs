//! Why packets of one node do not arrive at another.
//!
//! Nothing is asked of the machine here. [`facts::Facts`] answers what nodes and links are like now; [`walk()`] leads a flow from
//! hop to hop over these facts and notes everything that stops it there; sightings say where a probe was seen; [`judge`] puts
//! both together into a [`Report`]. A stop counts as the cause only if the probe was lost where that stop stands: one that the
//! probe got past is dropped, and a loss that no fact explains is reported as not known, with what is missing. [`judge_past`] does so for packets
//! that a recording has.
//! Each rule names its source where it stands.
#![forbid(unsafe_code)]

pub mod cause;
pub mod facts;
pub mod flow;
mod hooks;
mod judge;
mod lacking;
mod learnt;
mod names;
pub mod nft;
mod openflow;
mod past;
mod policy;
mod receiver;
mod report;
mod resolution;
mod routes;
mod segment;
mod text;
mod translation;
mod walk;
mod withheld;

pub use cause::{Basis, Cause, CauseName, Direction};
pub use flow::{Flow, MixedFamilies, Place, Protocol, Translation};
pub use judge::{Observed, Outcome, Seen, judge};
pub use lacking::without_address;
pub use past::{Past, Reply, Spot, Trace, judge_past};
pub use report::{Hop, Recorded, Report, Sighting, Translated, Verdict, Way};
pub use text::text;
pub use walk::{Doubt, Segment, Share, Stop, Walk, walk, walk_by_addresses};
