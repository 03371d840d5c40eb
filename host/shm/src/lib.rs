//! Shared-memory rings, and the protocol by which a port joins a switch.

mod error;
pub mod inbox;
mod index;
pub mod layout;
pub mod memory;
pub mod name;
pub mod page;
pub mod port;
pub mod protocol;
mod reason;
pub mod ring;
mod sync;
pub mod wake;

pub use error::{Error, Result};
pub use layout::HEADER;
pub use port::{Counters, JoinOptions, MOST_FRAME, Received, Sent, SwitchPort};

#[cfg(test)]
extern crate self as netloom_shm;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
