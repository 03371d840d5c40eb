//! The process of an OpenFlow switch, and its client.
//!
//! [`serve`] is the main loop: it speaks OpenFlow with controllers, takes requests over its [`control`] socket, and keeps a
//! [`data_plane::DataPlane`] equal to the tables. What happens to a packet is decided by `core/pipeline` alone;
//! messages are those of `core/openflow`. [`application`] is its configuration at the start.

#![forbid(unsafe_code)]

pub mod application;
mod channels;
pub mod control;
mod controllers;
pub mod data_plane;
mod dense_slots;
mod dialling;
mod engine;
mod error;
mod explain;
mod journal;
mod keeping;
mod manage;
mod names;
mod pace;
mod planes;
mod port_changes;
mod ports;
mod report;
mod saving;
mod server;
mod spare;
pub mod state;
mod system;
mod unwanted;

pub use application::Application;
pub use error::{Error, Result};
pub use explain::fields_of;
pub use names::Names;
pub use server::{NAME, serve, serve_in};

#[cfg(test)]
extern crate self as netloom_flow;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
