//! Plug-in for libvdeplug: VDE programs and QEMU join netloom's switches by `netloom://NAME`.
//!
//! libvdeplug (4.0) loads `libvdeplug_netloom.so` and calls through its one symbol, `vdeplug_ops` ([`OPS`]).
//! [`abi`] is that interface: pointers, errno, and no panic across it. [`plug`] implements a connection over
//! any [`port::Port`]; [`open`] parses names and arguments. `netloom_shm` provides joining, rings and
//! segmentation. The plug-in starts no thread and prints nothing. See libvdeplug(3) and docs/guide/vde.md.

pub mod abi;
mod open;
mod plug;
mod port;

pub use abi::{Module, OPS, OpenArgs};
