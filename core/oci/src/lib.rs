//! Images of containers as bytes.
//!
//! Names of images ([`mod@reference`]), what registries and archives say about them ([`manifest`], [`archive`]), and their
//! layers: tar archives ([`tape`]), whose entries are changes to a tree of files ([`entry`]), at paths that never lead out
//! of it ([`resolve`]). Registries speak HTTP: [`address`], [`head`], [`challenge`].
//!
//! Everything comes from strangers: it is bounded, and wrong bytes are refused with words that name what is wrong.
//! Not here: files, sockets, compression. See the OCI image and distribution specifications, and pax(1).

#![forbid(unsafe_code)]

pub mod address;
pub mod archive;
pub mod challenge;
pub mod digest;
pub mod entry;
mod error;
pub mod head;
pub mod manifest;
pub mod media;
pub mod reference;
pub mod resolve;
pub mod tape;

pub use digest::{Digest, Hasher};
pub use error::{Error, Result};
pub use reference::{Reference, Source};
