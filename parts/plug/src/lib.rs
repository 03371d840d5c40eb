//! Connects a switch to an interface: carries frames between a port of the machine (a tap, or a packet socket
//! with rings) and a port of a switch.
//!
//! A [`Pump`] runs in its caller's thread; [`serve`] is a whole process around one. Super-frames and partial
//! checksums pass unchanged. Nothing of the interface is changed, so there is nothing to restore, however the
//! process ends. `host/port` provides rings and sockets, `host/shm` the switch's memories.

#![forbid(unsafe_code)]

mod burst;
mod counters;
mod error;
mod inward;
mod lock;
mod member;
mod outward;
mod pump;
mod run;
mod spin;
mod switch;

pub use burst::End;
pub use counters::{Carried, Counters, Lost, Reading};
pub use error::{Error, Result};
pub use lock::{Lock, holder};
pub use member::{Given, Member, Taken};
pub use pump::Pump;
pub use run::{GUESTS_PATIENCE, Kind, NAME, Options, serve};

#[cfg(test)]
extern crate self as netloom_plug;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
