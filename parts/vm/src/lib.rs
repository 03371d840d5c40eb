//! Virtual machines: a process that starts a machine in a node, watches it and ends it.
//!
//! [`serve`] is that process. It runs as a program of the node's init, so that restarts, logs, limits and the end of
//! the node are those of any program. It has the node's rights; the machine itself (User-mode Linux or QEMU) runs as
//! a user without any ([`start`]). [`guest`] is process 1 of a User-mode Linux guest that has the node's files as its
//! root; [`client`] is what `shell`, `exec` and `node pause` run in the node.

#![forbid(unsafe_code)]

mod accel;
mod agent;
pub mod client;
mod command;
mod console;
mod error;
mod frames;
pub mod guest;
mod initrd;
mod mconsole;
mod qmp;
mod queue;
mod relay;
mod seed;
mod serve;
mod spec;
pub mod start;
pub mod storage;
mod uml;

pub use accel::{found_program, lacking};
pub use error::{Error, Result};
pub use serve::{NAME, more_grace, serve};
pub use spec::{SPEC, STATE, Spec, VERB, card_socket};
pub use uml::boots;
