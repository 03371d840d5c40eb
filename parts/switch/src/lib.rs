//! The process of a shared-memory switch, and its client.
//!
//! [`serve`] decides which process may join and with which number, hands out descriptors of the rings between ports,
//! and reports ports that leave. It carries only frames whose destination has no edge yet (broadcast,
//! multicast, unknown addresses); ports carry the rest themselves, so it uses no CPU while they talk. It
//! trusts no port. [`control`] sends it requests; [`rules`] are the settings it takes and saves.

mod access;
mod application;
pub mod classic;
mod client;
pub mod control;
mod edges;
mod error;
mod join;
mod manage;
mod notices;
mod options;
mod pace;
pub mod plane;
mod port;
mod publish;
mod received;
mod relay;
pub mod rules;
mod seats;
mod server;
mod shares;
mod state;
mod system;

pub use error::{Error, Result};
pub use options::{Options, listen};
pub use plane::Plane;
pub use server::{NAME, serve, serve_beside};

#[cfg(test)]
extern crate self as netloom_switch;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
