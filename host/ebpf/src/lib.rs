//! BPF programs of the kernel's network: built, loaded, attached, read.
//!
//! Three parts, each with a handle: [`sockets`] limits how many sockets groups of processes have open,
//! [`protect`] drops what a node gets beyond its budget, [`wire`] leads the frames of a running link
//! through a process. [`feature`] says what this machine can do.
//!
//! [`capture`] copies what passes an interface into mapped memory.
//!
//! [`generate`] makes frames in the kernel. [`measure`] counts and marks flows.
//!
//! Nothing is pinned. Programs are attached without links, so that each lives exactly as long as the
//! group or the interface that it is attached to, whoever ends; a later process finds programs and
//! maps again by asking the kernel what is attached (`reopen`). Taps have links: they end with their
//! process. Functions that take the index of an
//! interface mean the calling thread's network namespace. Everything here needs root.
//!
//! The programs' sources are in `bpf/`, one folder a part; what they share with us in
//! `bpf/include/netloom/`.

pub mod capture;
pub mod feature;
pub mod generate;
pub mod measure;
pub mod protect;
pub mod sockets;
pub mod wire;

mod attach;
mod error;
mod load;
mod map;
mod presence;
mod program;

pub use attach::{Direction, Hook};
pub use error::{Error, Result};

#[cfg(test)]
extern crate self as netloom_ebpf;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
