//! Measures live traffic by alternate marking: points, blocks, and the results kept.
//!
//! A [`Session`] is one measurement: it attaches points to interfaces, reads each block once it is closed,
//! and keeps the results until it is dropped. A [`Probe`] holds several sessions by number, for the API.
//! [`Measures`] is the result of both, for people and for a collector across hosts. [`Interfaces`] locates
//! interfaces; `netloom_marking` defines the figures.
//!
//! A point's block is complete or states why not; none is silently wrong. Specification: RFC 9341; the API's
//! terms follow its source.
#![forbid(unsafe_code)]

mod background;
mod error;
mod interfaces;
mod join;
mod limits;
mod lock;
mod overlap;
mod point;
mod probe;
mod request;
mod run;
mod session;
mod shared;
mod start;
pub mod view;

pub use error::{Error, Result};
pub use interfaces::{Host, Interfaces};
pub use limits::flows_that_fit;
pub use probe::{MOST_SESSIONS, Probe, Summary};
pub use request::{Between, Closed, ClosedBlock, Join, SessionId, Setup, Spot, State, Wanted};
pub use session::Session;
pub use view::{Measures, TwoWays};

#[cfg(test)]
extern crate self as netloom_measure;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
