//! Plug-in for libvdeplug: VDE programs and QEMU join netloom's switches by `netloom://NAME`.
//!
//! libvdeplug (4.0) loads `libvdeplug_netloom.so` and calls through its one symbol, `vdeplug_ops`
//! ([`OPS`]). [`abi`] is that border: pointers, errno, and no panic beyond it. [`plug`] is what a
//! connection does, over anything that is a [`port::Port`]; [`open`] reads names and arguments.
//! Joining, rings and segmentation are `netloom_shm`'s. No thread is started, nothing is printed.
//! See libvdeplug(3) and docs/guide/vde.md.

pub mod abi;
mod open;
mod plug;
mod port;

pub use abi::{Module, OPS, OpenArgs};
