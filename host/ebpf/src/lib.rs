//! BPF programs in the kernel's network stack: built, loaded, attached, read.
//!
//! Three parts, each with a handle: [`sockets`] limits the open sockets of groups of processes,
//! [`protect`] drops frames to a node beyond its budget, [`wire`] diverts the frames of a running
//! link through a process. [`feature`] tells what this machine can do.
//!
//! [`capture`] copies frames that pass an interface into mapped memory.
//!
//! [`generate`] makes frames in the kernel. [`measure`] counts and marks flows. [`flow`] forwards as the tables of an
//! OpenFlow switch say.
//!
//! Nothing is pinned. Programs are attached without links, so each lives exactly as long as its
//! group or interface, whichever process ends; a later process finds programs and maps again by
//! asking the kernel what is attached (`reopen`). Taps have links: they end with their process. An
//! interface index refers to the calling thread's network namespace. Everything here needs root.
//!
//! The programs' sources are in `bpf/`, one directory per part; the headers shared with Rust are in
//! `bpf/include/netloom/`.

pub mod capture;
pub mod feature;
pub mod flow;
pub mod generate;
pub mod measure;
pub mod protect;
pub mod sockets;
pub mod wire;

mod attach;
mod error;
mod filter;
mod load;
mod map;
mod memory;
mod presence;
mod program;

pub use attach::{Direction, Hook};
pub use error::{Error, Result};

#[cfg(test)]
extern crate self as netloom_ebpf;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
