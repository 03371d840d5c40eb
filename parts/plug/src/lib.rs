//! Joins a switch to an interface: carries frames between a port of the machine (a tap, or a packet
//! socket with rings) and a port of a switch.
//!
//! A [`Pump`] carries, in the thread that runs it; [`serve`] is the life of a process that has one.
//! Super-frames and unfinished checksums pass as they are. Nothing of the interface is changed, so there
//! is nothing to be set back, however the process ends. Rings and sockets are `host/port`'s, the switch's
//! memories `host/shm`'s.

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
pub use run::{Kind, Options, serve};

#[cfg(test)]
extern crate self as netloom_plug;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
