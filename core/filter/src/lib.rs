//! Classic BPF filters: checked, run over bytes, and turned into eBPF.
//!
//! A [`Program`] is a filter in the form that libpcap compiles expressions to and that the kernel takes
//! for sockets. [`Program::new`] checks it, [`Program::run`] runs it over a frame, and
//! [`ebpf::translate`] makes instructions of it for programs on the kernel's data path.
//!
//! The meaning is that of Linux for classic programs on a frame in one piece (`net/core/filter.c`;
//! `Documentation/networking/filter.rst`); [`Program::run`] lists the cases. What asks for something
//! else than bytes of the frame and its length (ancillary data: negative offsets) is refused: filters
//! compiled for Ethernet frames do not have it.
//!
//! An expression becomes a program in `host/libpcap`; [`words`] puts names of nodes and flows into one
//! before.

#![forbid(unsafe_code)]

mod error;
mod insn;
mod program;
mod run;

pub mod ebpf;
pub mod words;

pub use error::{Error, Result};
pub use insn::Insn;
pub use program::{MOST_INSNS, Program};

#[cfg(test)]
extern crate self as netloom_filter;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
