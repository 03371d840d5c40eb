//! Control sockets of the processes beside a lab: requests, with descriptors, and their answers; both sides.
//!
//! A process listens on a SOCK_SEQPACKET UNIX socket of mode 0600; a message of it is one JSON value in a [`Form`].
//! A [`Protocol`] says what the requests and answers of a process are. [`Client`] asks, each wait with a bound;
//! [`Desk`] serves: it never blocks, drops clients that do not read, and stands in the process's own loop as one
//! descriptor. The kernel says who is at the other end ([`Trust`]).
//!
//! Processes outlive the lab process, and that may be of another version when it finds them again. So no form
//! changes, and a request that a process does not know is refused in words, or its connection is closed
//! ([`Protocol::refuse`]). Requests and answers only gain variants, and fields that have a default.

#![forbid(unsafe_code)]

mod client;
mod desk;
pub mod envelope;
mod fault;
mod folder;
mod form;
mod protocol;

pub use client::Client;
pub use desk::{Desk, Incoming, listen};
pub use fault::{Fault, unexpected};
pub use folder::{Folder, LOOK};
pub use form::Form;
pub use protocol::{PATIENCE, Protocol, Trust};

#[cfg(test)]
extern crate self as netloom_control;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
