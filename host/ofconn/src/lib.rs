//! Connections that speak OpenFlow: bytes to messages, and bounded queues.
//!
//! [`target`] says where the other end is, [`dial`] and [`peers`] try to reach it again and again, [`arrival`] accepts it, [`reach`] makes sockets, in other
//! network namespaces, too, [`tls`] wraps them, [`Channel`] reads and writes whole messages, and [`watch`] waits for many
//! of them; none of these blocks, as a switch and a slicer need it. [`client`] does: it asks a switch, as a controller does. [`record_file`] keeps what a later process has to know of what was agreed on over them.
//! What the messages mean is decided elsewhere; they are those of `core/openflow`.

#![forbid(unsafe_code)]

pub mod arrival;
mod channel;
pub mod client;
pub mod dial;
mod error;
mod link;
pub mod peers;
pub mod reach;
pub mod record_file;
pub mod target;
pub mod tls;
pub mod watch;

pub use channel::{Channel, Gone, READ, Silence};
pub use error::{Error, Result};
pub use link::Link;
pub use target::{Controller, NoTarget, OPENFLOW_PORT, Target, Tls};

/// Nanoseconds of the machine's monotonic clock.
pub type Time = u64;

#[cfg(test)]
extern crate self as netloom_ofconn;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
