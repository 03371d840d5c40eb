//! YAML with places: text in, a tree with lines and columns out, and every error at once.
//!
//! [`load`] turns bytes into a [`Node`] tree; [`read`] turns single nodes into values with units.
//! Both record errors in a [`Report`] and continue, so that a file's errors come together, in
//! order of place, as [`Diagnostics`]. Their `Display` is the text for users. [`format()`] sets a text in one style.
//!
//! Nothing here reads files, knows a clock or starts a thread. Work and memory are bounded: the
//! size of the text by [`MAX_BYTES`], values by [`MAX_VALUES`], nesting by [`MAX_DEPTH`], copies made
//! by aliases by [`MAX_EXPANSION`]. The language is YAML 1.2 (core schema, <https://yaml.org/spec/1.2.2/>)
//! with the merge key `<<` of YAML 1.1, one document a file, text as keys, no tags.
#![forbid(unsafe_code)]

mod brackets;
pub mod cursor;
mod diagnostic;
mod format;
pub mod likely;
mod node;
mod path;
pub mod printable;
pub mod read;
mod scalar;
mod suggest;
mod text;
mod tree;
pub mod units;
pub mod written;

pub use diagnostic::{Diagnostic, Diagnostics, Repetition, Report};
pub use format::format;
pub use node::{Entry, Kind, Node, Place};
pub use path::Path;
pub use scalar::resolve;
pub(crate) use suggest::quote_plain;
pub use suggest::{closest, quote};
pub use text::{MAX_BYTES, too_large};
pub use tree::{MAX_DEPTH, MAX_EXPANSION, MAX_VALUES, load};
