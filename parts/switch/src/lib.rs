//! The process of a shared-memory switch, and how it is asked.
//!
//! [`serve`] hands out descriptors: who may join, which number, rings between ports, and says who
//! is gone. It carries only frames whose destination has no edge yet (broadcast, multicast, unknown
//! addresses); ports carry the rest themselves, so it uses no CPU while they talk. It trusts no
//! port. [`control`] asks it; [`rules`] are what it is told and writes down.

mod access;
mod application;
mod client;
pub mod control;
mod edges;
mod error;
mod heard;
mod join;
mod manage;
mod options;
mod port;
mod publish;
mod relay;
pub mod rules;
mod seats;
mod server;
mod shares;
mod state;
mod system;

pub use error::{Error, Result};
pub use options::{Options, listen};
pub use server::serve;

#[cfg(test)]
extern crate self as netloom_switch;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
