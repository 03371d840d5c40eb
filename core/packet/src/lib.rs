//! Frames: views of their headers, checksums, segmentation, merging, and a hash that forwarding does not change; and
//! messages of DNS.
//!
//! Bytes come as arguments and may be anything: every function is total. A frame begins with its
//! Ethernet header; its [`VnetHeader`], which says what offload left undone, is passed separately.

pub mod checksum;
pub mod dns;
mod error;
#[cfg(test)]
mod frames;
pub mod headers;
mod identity;
pub mod merge;
pub mod own;
pub mod segment;
pub mod vnet;

pub use error::{Error, Result};
pub use headers::{Fragment, Headers, Ip};
pub use identity::{hash, identity, identity_of};
pub use merge::Merger;
pub use segment::{Segmenter, packets, segment};
pub use vnet::{Gso, VnetHeader};

#[cfg(test)]
extern crate self as netloom_packet;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
