//! What a kernel boots from, as pure bytes: initial RAM disks ([`cpio`]), lists of modules ([`modules`]), and the plain
//! kernel inside a compressed image ([`kernel`]).
//!
//! Nothing here reads a file or starts a program; callers have the bytes. Outside bytes never panic: what is not
//! understood is `None`.

#![forbid(unsafe_code)]

pub mod cpio;
mod elf;
pub mod kernel;
mod lz4;
pub mod modules;

#[cfg(test)]
extern crate self as netloom_boot;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
