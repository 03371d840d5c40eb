//! Network cards of virtual machines, as ports: a vhost-user back end (QEMU: docs/interop/vhost-user.rst).
//!
//! A [`VhostPort`] takes frames straight out of a guest's memory and puts them there. It serves one card: split rings,
//! several queues, mergeable buffers, indirect descriptors, wake-ups by index, and offloads both ways; what a guest does
//! not take is cut and finished here. The front end may come, go and come back at any time. Guests and front ends are
//! hostile: whatever they do is bounded, and hurts this port alone.

#![forbid(unsafe_code)]

mod device;
mod error;
mod faults;
mod features;
mod flow;
#[cfg(any(test, feature = "front"))]
pub mod front;
mod header;
mod inward;
mod memory;
mod outward;
mod port;
mod ring;
mod socket;
mod watch;

pub use device::MOST_PAIRS;
pub use error::{Error, Result};
pub use faults::Faults;
pub use port::{Options, VhostPort};
pub use socket::Role;

#[cfg(test)]
extern crate self as netloom_vhost;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
