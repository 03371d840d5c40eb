//! The interface to Linux: processes and namespaces, mounts, control groups, capabilities, passing
//! descriptors between processes, and the list of probed features.
//!
//! Thin, with owned descriptors, and without knowledge of labs. Decisions are made above; code here
//! only acts and reports exactly what was refused. Set-up sequences go through [`setup::Setup`],
//! which has a recording fake, so that tests check their order without privilege. Links and
//! addresses belong to netlink.

pub mod admission;
mod answered;
pub mod caps;
pub mod cgroup;
pub mod clock;
pub mod crowd;
pub mod data;
mod describe;
pub mod disposition;
mod error;
mod failure;
pub mod fake_chown;
pub mod feature;
pub mod inherited;
pub mod isolated_netns;
pub mod journal;
pub mod keyring;
pub mod lease;
pub mod lookup;
pub mod memory;
mod mount_attributes;
pub mod mountinfo;
pub mod namespace;
mod overlay;
pub mod own_terminals;
pub mod own_user;
pub mod population;
pub mod private_socket;
pub mod process;
pub mod random;
pub mod realtime;
pub mod scm;
pub mod sealed;
pub mod seccomp;
pub mod setup;
pub mod shown;
pub mod socket_filter;
pub mod space;
pub mod subordinate;
pub mod sysctl;
pub mod tcp;
pub mod terminal;
pub mod title;
pub mod trusted;

pub use describe::describe;
pub use error::{Error, Result, Unsupported};
pub use failure::Failure;

#[cfg(test)]
extern crate self as netloom_sys;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
