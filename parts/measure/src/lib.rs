//! Measurements of live traffic by alternate marking: points, blocks, and what is kept of them.
//!
//! A [`Session`] is one measurement: it puts points at interfaces, reads each block when it is closed,
//! and keeps what they say until it is dropped. A [`Probe`] has several by number, as the API asks for
//! them; [`Measures`] is what both tell, for people and for a collector of several hosts. Where
//! interfaces are is told by [`Interfaces`]; what the figures mean is `netloom_marking`'s.
//!
//! A block is complete at a point or says what stands against it; none is silently wrong.
//! Specification: RFC 9341; the API's words are those of the source.
#![forbid(unsafe_code)]

mod asked;
mod error;
mod interfaces;
mod limits;
mod lock;
mod overlap;
mod point;
mod probe;
mod returning;
mod run;
mod session;
mod shared;
mod start;
pub mod view;

pub use asked::{Closed, SessionId, Setup, Spot, State, Told, Wanted};
pub use error::{Error, Result};
pub use interfaces::{Host, Interfaces};
pub use probe::{MOST_SESSIONS, Probe, Summary};
pub use session::Session;
pub use view::Measures;

#[cfg(test)]
extern crate self as netloom_measure;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
