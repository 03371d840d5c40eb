//! The process of a slicer, and its client: between OpenFlow switches and the controllers of slices.
//!
//! [`serve`] is the main loop: it speaks OpenFlow with switches and with controllers, and takes requests over its
//! [`control`] socket. `core/slicing` alone decides which slice a packet belongs to, what a rule may do and
//! which messages each side gets. [`application`] is its configuration at the start. No slice delays another: each has its turn.

#![forbid(unsafe_code)]

pub mod application;
mod arrivals;
mod beginning;
mod channels;
pub mod control;
mod dialling;
mod error;
mod greeting;
mod manage;
mod memory;
mod pace;
mod real;
mod report;
mod server;
mod serving;
mod switches;
mod system;
mod turns;
mod window;
mod wire;

pub use application::{Application, Policy, SlicePolicy, SwitchPolicy};
pub use error::{Error, Result};
pub use server::{NAME, serve};

#[cfg(test)]
extern crate self as netloom_slice;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
