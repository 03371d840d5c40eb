//! A wire: carries frames between two ports, with what `core/impair` decides for each.
//!
//! [`serve`] is the life of the process that carries frames, for any number of wires. It needs no
//! privilege: its ports are given to it over its [`control`] socket. Impairments, fates and books
//! are `core/impair`'s, ports `host/port`'s; here frames are read, held and sent at their time.

#![forbid(unsafe_code)]

mod carrier;
pub mod control;
mod departures;
mod error;
mod fates;
mod lateness;
mod serve;
mod store;
mod worker;

pub use error::{Error, Result};
pub use serve::serve;

#[cfg(test)]
extern crate self as netloom_wire;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
