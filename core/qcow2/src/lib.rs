//! Disks of virtual machines as bytes: what a file is ([`look`]), and an empty layer over it ([`layer`]).
//!
//! Formats: raw, and qcow2 of versions 2 and 3 (QEMU's docs/interop/qcow2.rst). Only headers are read; tables and
//! clusters are QEMU's to check. A disk must be whole in its one file: what names another file is refused, since that
//! name could be any file of the computer.
//!
//! Not here: opening files, and which of them a machine may read.

#![forbid(unsafe_code)]

mod layer;
mod look;

pub use layer::{empty, layer};
pub use look::{Disk, Format, HEAD, Layer, Refusal, look, look_at_layer};

/// First bytes of a qcow2 file: "QFI" and 0xfb.
pub(crate) const MAGIC: [u8; 4] = *b"QFI\xfb";

/// Extension of a header that names the format of the file below.
pub(crate) const BELOW_FORMAT: u32 = 0xE279_2ACA;
