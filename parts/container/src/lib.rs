//! Images of containers: from registries, archives, folders and Docker, kept by digest, and unpacked once for all labs.
//!
//! [`provide`](provide::provide) brings a lab's images: it fetches missing layers and unpacks them into folders, one a
//! layer, which are the lower directories of nodes' overlays. The [`Store`] is one folder of this user's. Any process may
//! be killed at any moment: an incomplete layer is never used, and the next one finishes or removes it.
//!
//! Not here: what an image's bytes mean (`netloom-oci`), overlays and programs (`netloom-node`).
#![forbid(unsafe_code)]

mod below;
mod copying;
mod docker;
mod download;
mod error;
pub mod keeping;
mod local;
mod locks;
mod options;
pub mod pins;
pub mod provide;
mod record;
mod registry;
mod store;
mod tar;
mod transport;
mod tree;
pub mod unpack;
mod unpacker;
mod unpacking;
mod wrong;

pub use error::{Error, Result};
pub use options::{Limits, Options, Owners, Patience, Pull, platform, usual_owners};
pub use provide::{Progress, provide};
pub use record::{Layer, Record};
pub use store::Store;

#[cfg(test)]
extern crate self as netloom_container;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
