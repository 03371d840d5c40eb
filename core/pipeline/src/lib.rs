//! The OpenFlow switch as a pure state machine: tables, priorities, actions, groups, meters, roles.
//!
//! [`Switch`] takes messages of controllers, frames, news of ports and the time, and puts what follows into [`Outputs`].
//! Nothing here reads a clock, a socket or random numbers: times are nanoseconds of any clock that does not go
//! back, and the seed of groups that select is an option. It is the reference that a faster data plane
//! is compared with and filled from: see [`Trace`] and [`key`].
//! See the OpenFlow Switch Specification, versions 1.0.0 and 1.3.5; section numbers are those of 1.3.5.

#![forbid(unsafe_code)]

mod action_set;
mod buffers;
mod check;
mod convert;
mod crc32c;
mod example;
mod group;
pub mod headers;
pub mod key;
mod learning;
mod meter;
mod packet;
mod rule;
mod switch;
mod table;
mod trace;
mod uses;
mod work;

pub use example::frame as example;
pub use key::{FlowKey, Pattern};
pub use rule::{Rule, RuleId, Time};
pub use switch::{
    Affected, Change, ConnectionId, FailMode, Frame, Options, Outputs, Place, ReadMessage,
    SavedGroup, SavedMeter, SavedRule, SavedSettings, Switch,
};
pub use trace::{Drop, Effect, Growth, Step, Trace};
pub use work::Work;

#[cfg(test)]
extern crate self as netloom_pipeline;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
