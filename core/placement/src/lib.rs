//! Which of several hosts makes which part of a lab, and what that costs.
//!
//! [`place()`] takes a plan, the pins of its file and the hosts, and returns a [`Placement`], which
//! [`Plan::part`](netloom_model::Plan::part) turns into what each host makes. Pins hold; else few links are across and no host has
//! much more than its share (`atoms` are placed whole, `bisect` finds a start, `spread` keeps the bounds). With
//! an [`Earlier`] placement everything stays where it was, unless a bound forbids that. [`account()`] is what a person reads of it.
//!
//! Invariants: the same input gives the same placement on every machine; what cannot be is refused by name; no bound of a
//! host's capacity is ever passed. Nothing here reads a file or asks a host.

#![forbid(unsafe_code)]

mod account;
mod atoms;
mod bisect;
mod choose;
mod cluster;
mod costs;
mod demand;
mod earlier;
mod error;
mod graph;
mod needs;
mod spread;
mod underlay;

pub use account::{Account, Cost, Crossed, HostAccount, account};
pub use choose::{BALANCE_PERCENT, STICKY_PERCENT, place};
pub use costs::costs;
pub use demand::{Demand, NODE_BYTES, PAIR_BYTES, demand};
pub use earlier::Earlier;
pub use error::Error;
pub use netloom_model::plan::Placement;
pub use underlay::{Carried, carried};

#[cfg(test)]
extern crate self as netloom_placement;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
