//! Slices of OpenFlow switches: several controllers share a switch, and none can touch another's part of it.
//!
//! [`Slicing`] says which packets belong to which slice ([`Space`]) and what each slice may use ([`Quota`]).
//! [`VirtualSwitches`] stands between one real switch and the controllers of all slices: messages of either side go
//! in with the time, messages to both come out. Each slice sees a switch of its own. A rule reaches the real
//! switch only after a proof (`proof`) that no packet can leave the slice by it; a refusal has an example.
//! Nothing here reads a clock or a socket: times are nanoseconds of any clock that does not go back.
//! See the OpenFlow Switch Specification, versions 1.0.0 and 1.3.5; section numbers are those of 1.3.5.

#![forbid(unsafe_code)]

mod cube;
mod effect;
mod example;
mod fault;
mod fields;
mod index;
mod mark;
mod memory;
mod proof;
mod refusal;
mod siphash;
mod slicing;
mod space;
mod virtual_switches;
mod walk;

pub use cube::{Cube, Region};
pub use example::Example;
pub use mark::Key;
pub use memory::Memory;
pub use netloom_pipeline::Work;
pub use refusal::Refusal;
pub use slicing::{Error, Quota, Rate, Slice, SliceId, Slicing};
pub use space::{MacMask, Prefix4, Prefix6, Space, Vlan};
pub use virtual_switches::{
    CloseReason, Counters, Found, Out, Resumed, Resuming, VirtualSwitches, Written,
};

/// Nanoseconds of any clock that does not go back.
pub type Time = u64;

#[cfg(test)]
extern crate self as netloom_slicing;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
