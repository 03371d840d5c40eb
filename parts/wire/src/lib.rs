//! A wire: carries frames between two ports, applying the decisions of `core/impair`.
//!
//! [`serve`] is the main loop of the wire process, for any number of wires. It needs no privilege: it
//! receives its ports over its [`control`] socket. Impairments, fates and ledgers are those of
//! `core/impair`, ports those of `host/port`; this crate reads frames, holds them, and sends them on time.

#![forbid(unsafe_code)]

mod carrier;
pub mod control;
mod departures;
mod error;
mod fates;
mod serve;
mod store;
mod worker;

pub use error::{Error, Result};
pub use serve::{NAME, serve};

#[cfg(test)]
extern crate self as netloom_wire;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
