//! Guard's policy: which program may reach what, and which rule says so.
//!
//! A [`Policy`] is a set of [`Rule`]s and a default. [`Policy::decide`] answers a [`Request`] of a program.
//! The order of rules in the file has no meaning. A rule beats another one if everything that it matches is
//! matched by the other one, too (it is *within* the other). Of the matching rules that none beats, the strictest
//! wins: deny, then ask, then log, then allow. An address that is known by several names is judged once
//! for each name that a rule says, and the strictest verdict counts, so that a name allows no address
//! of which another name is denied.
//!
//! Text in and out is YAML ([`read()`], [`write()`]); [`learn`] makes the least policy that allows what happened;
//! [`compare`] tells two policies apart. Nothing here resolves names, opens files or knows a clock: the
//! caller passes what it observed, and the time.
#![forbid(unsafe_code)]

pub mod action;
pub mod compare;
mod decide;
mod index;
pub mod learn;
pub mod pattern;
mod read;
pub mod request;
mod rule;
pub mod words;
mod write;

#[cfg(test)]
mod tests;

pub use action::{Action, Errno};
pub use decide::{Policy, Verdict};
pub use index::{Indexed, Said};
pub use read::read;
pub use request::{Direction, Port, Program, Protocol, Request, Target};
pub use rule::Rule;
pub use write::write;
