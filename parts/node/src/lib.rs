//! A node: its namespaces, its init, its programs, its files, and the ways into it.
//!
//! [`spawner`] is a single-threaded process that clones every node's init. [`init`] is what such a clone
//! becomes: process 1 of the node, which mounts the node's file system, runs its programs and answers on a
//! control socket. [`entry`] takes a caller's process into a node; [`control`] is the client of an init.
//! Links and addresses are outside this crate: its user gives a node its interfaces.
//!
//! Invariant: an init that has reported can be found by its control socket while it lives; an init that has
//! not dies with its spawner.
#![forbid(unsafe_code)]

pub mod by_init;
pub mod control;
pub mod copy;
mod dev;
pub mod entry;
mod error;
pub mod figures;
mod files;
mod health;
pub mod init;
mod interpreter;
mod living;
pub mod loads;
pub mod log;
mod people;
pub mod ping;
pub mod placing;
mod programs;
mod ready;
pub mod root;
mod settle;
mod skeleton;
pub mod spawner;
pub mod spec;
pub mod users;

pub use error::{Error, Result};
pub use spec::{Kind, NodeSpec, Prepare};
pub use users::Users;

#[cfg(test)]
extern crate self as netloom_node;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
