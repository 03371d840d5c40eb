//! The path of keys to a value, for messages: `nodes.h1.limits.cpu`, `links[3].mtu`.
//!
//! Paths live on the stack of the reader that walks the tree; they cost nothing until shown.

use std::fmt;

/// A path from the top of the file.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The top.
    Root,
    /// A key of a map.
    Key(&'a Path<'a>, &'a str),
    /// An item of a list, from 0.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// The path of a key below this one.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// The path of an item below this one.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => f.write_str("file"),
            Path::Key(Path::Root, key) => f.write_str(&shown(key)),
            Path::Key(parent, key) => write!(f, "{parent}.{}", shown(key)),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A key as shown in a path: quoted when it would be unclear.
fn shown(key: &str) -> String {
    // Braces stand in names of repeated entries.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:{}".contains(c);
    if !key.is_empty() && key.len() <= 64 && key.chars().all(plain) {
        key.to_owned()
    } else {
        crate::quote(key)
    }
}
