//! Classic BPF filters: checked, run over bytes, and turned into eBPF.
//!
//! A [`Program`] is a filter in the form that libpcap compiles expressions to and that the kernel accepts
//! for sockets. [`Program::new`] checks it, [`Program::run`] runs it over a frame, and
//! [`ebpf::translate`] translates it for programs on the kernel's data path.
//!
//! The semantics are those of Linux for classic programs on a frame in one piece (`net/core/filter.c`;
//! `Documentation/networking/filter.rst`); [`Program::run`] lists the cases. A program that reads
//! anything but the frame's bytes and its length (ancillary data: negative offsets) is refused: filters
//! compiled for Ethernet frames do not need it.
//!
//! `host/libpcap` compiles an expression to a program; before that [`expand`] replaces names of nodes
//! and flows in it.

#![forbid(unsafe_code)]

mod error;
mod insn;
mod program;
mod run;

pub mod ebpf;
pub mod expand;

pub use error::{Error, Result};
pub use insn::Insn;
pub use program::{MOST_INSNS, Program};

#[cfg(test)]
extern crate self as netloom_filter;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
