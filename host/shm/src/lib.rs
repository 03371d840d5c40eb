//! Shared-memory rings, and the protocol by which a port joins a switch.

mod error;
pub mod name;
pub mod protocol;

pub use error::{Error, Result};
