//! The bytes of classic VDE, as `vde_switch` 2.3 speaks it: requests of clients ([`request`]) and the text of
//! its management console ([`console`]).
//!
//! Everything that arrives is untrusted: a parser refuses, and never panics. Sockets, and what a command does,
//! are left to `parts/switch`. See docs/abi/vde-classic.md.

pub mod console;
pub mod request;

pub use request::{Refused, Request};

#[cfg(test)]
extern crate self as netloom_vde;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
